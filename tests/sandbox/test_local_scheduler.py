"""Batch scripts on a machine without Slurm."""

import os
import threading

import pytest

from launcher.model.job import JobState
from launcher.sandbox import processes
from launcher.sandbox.namespaces import node_address
from launcher.submit.jobs import SchedulerError
from tests.waiting import until


@pytest.fixture
def scheduler(local_slurm):
    return local_slurm.scheduler


@pytest.fixture
def submit(tmp_path, local_slurm, scheduler):
    folder = tmp_path / "job"
    folder.mkdir()

    def hand_in(text, *options, **environment):
        lines = "".join(f"#SBATCH {option}\n" for option in ("--partition=gpu", "--output=out", *options))
        script = folder / "job.sh"
        script.write_text(f"#!/bin/bash\n{lines}{text}\n")
        whole = {**local_slurm.environment(os.environ["PATH"]), **environment}
        return scheduler.submit(script, folder=folder, environment=whole)

    return hand_in


@pytest.fixture
def output(tmp_path):
    return lambda: (tmp_path / "job" / "out").read_text() if (tmp_path / "job" / "out").exists() else ""


def end(scheduler, job):
    until(lambda: scheduler.state(job).final)
    return scheduler.state(job)


class TestJobs:
    def test_successful_job_completes_with_exit_0(self, scheduler, submit, output):
        job = submit('echo "$SLURM_JOB_ID $SLURMD_NODENAME $SLURM_JOB_PARTITION $GREETING"', GREETING="hello")
        assert end(scheduler, job) is JobState.COMPLETED
        assert output() == f"{job} gpu-dy-p5-1 gpu hello\n"
        (attempt,) = scheduler.attempts(job)
        assert (attempt.number, attempt.exit_code, attempt.nodes) == (1, 0, ("gpu-dy-p5-1",))
        assert attempt.started_at < attempt.ended_at

    def test_failing_job_fails_with_exit_code(self, scheduler, submit):
        job = submit("exit 3")
        assert end(scheduler, job) is JobState.FAILED
        assert scheduler.attempts(job)[0].exit_code == 3

    def test_requeue_exit_code_restarts_job(self, scheduler, submit, output):
        job = submit(
            'echo "restart ${SLURM_RESTART_COUNT-none}"; [ -n "${SLURM_RESTART_COUNT-}" ] || exit 75',
            "--open-mode=append",
        )
        assert end(scheduler, job) is JobState.COMPLETED
        assert output() == "restart none\nrestart 1\n"
        assert [attempt.exit_code for attempt in scheduler.attempts(job)] == [75, 0]

    def test_requeue_exit_code_without_requeue_fails_job(self, scheduler, submit):
        assert end(scheduler, submit("exit 75", "--no-requeue")) is JobState.FAILED

    def test_background_processes_end_with_job(self, scheduler, submit, tmp_path):
        job = submit(f"setsid sleep 600 & echo $! > {tmp_path}/pid")
        end(scheduler, job)
        assert not processes.is_running(int((tmp_path / "pid").read_text()))

    def test_job_past_time_limit_is_terminated(self, scheduler, submit):
        job = submit("sleep 600", "--time=0:01")
        assert end(scheduler, job) is JobState.FAILED
        assert scheduler.attempts(job)[0].signal == 15

    def test_waiting_job_starts_when_nodes_are_free(self, scheduler, submit, tmp_path):
        first = submit(f"until [ -e {tmp_path}/go ]; do sleep 0.05; done", "--nodes=2")
        until(lambda: scheduler.nodes(first))
        second = submit("true")
        assert scheduler.state(second) is JobState.PENDING
        assert scheduler.busy("gpu-dy-p5-2")
        (tmp_path / "go").touch()
        assert end(scheduler, second) is JobState.COMPLETED

    @pytest.mark.parametrize(
        "options, message",
        [
            (("--nodes=3",), "requests 3 nodes, available: 2"),
            (("--partition=cpu",), "available: 0"),
            (("--array=1-2",), "--array"),
        ],
    )
    def test_impossible_job_refused(self, submit, options, message):
        with pytest.raises(SchedulerError, match=message):
            submit("true", *options)

    def test_unknown_job_is_not_found(self, scheduler):
        with pytest.raises(SchedulerError, match="there is no job 9"):
            scheduler.state("9")


class TestCancel:
    def test_cancelled_job_may_clean_up(self, scheduler, submit, output):
        job = submit("trap 'echo told; exit 0' TERM; echo ready; while :; do sleep 0.05; done")
        until(lambda: "ready" in output())
        scheduler.cancel(job)
        assert end(scheduler, job) is JobState.CANCELLED
        assert "told" in output()

    def test_waiting_job_is_cancelled(self, scheduler, submit):
        submit("sleep 600", "--nodes=2")
        waiting = submit("true")
        scheduler.cancel(waiting)
        assert end(scheduler, waiting) is JobState.CANCELLED
        assert scheduler.attempts(waiting) == ()

    def test_scheduler_stop_ends_all_processes(self, scheduler, submit, output):
        job = submit("trap '' TERM; echo $$; sleep 600 & wait; sleep 600")
        pid = int(until(output))
        scheduler.stop()
        assert not processes.is_running(pid)
        assert scheduler.state(job) is JobState.CANCELLED


class TestNodes:
    def test_drained_node_accepts_no_job(self, scheduler, submit, output):
        job = submit(
            'echo $SLURMD_NODENAME; [ -n "${SLURM_RESTART_COUNT-}" ] && exit 0;'
            ' scontrol update nodename=$SLURMD_NODENAME state=drain reason="spot notice" && exit 75',
            "--open-mode=append",
        )
        assert end(scheduler, job) is JobState.COMPLETED
        assert output().split() == ["gpu-dy-p5-1", "gpu-dy-p5-2"]

    def test_lost_node_ends_attempt_and_requeues_job(self, scheduler, submit, output, nodes):
        job = submit(
            'ls $SLIPWAY_SCRATCH; [ -n "${SLURM_RESTART_COUNT-}" ] && exit 0;'
            " touch $SLIPWAY_SCRATCH/file; echo ready; sleep 600",
            "--nodes=2",
            "--open-mode=append",
        )
        until(lambda: "ready" in output())
        scheduler.node_lost("gpu-dy-p5-1")
        until(lambda: scheduler.attempts(job)[0].ended_at)
        assert scheduler.state(job) is JobState.PENDING
        nodes.replace("gpu-dy-p5-1")
        scheduler.node_replaced("gpu-dy-p5-1")
        assert end(scheduler, job) is JobState.COMPLETED
        assert output() == "ready\n"
        first, second = scheduler.attempts(job)
        assert (first.node_lost, first.exit_code, second.node_lost, second.exit_code) == (True, None, False, 0)

    def test_node_replaced_without_request_ends_attempt_and_requeues_job(self, scheduler, submit, nodes, output):
        wait = "echo began; while [[ ! -e gone ]]; do sleep 0.05; done; exit 9"
        job = submit(f'[[ -z "${{SLURM_RESTART_COUNT:-}}" ]] || exit 0; {wait}')
        until(output)
        nodes.replace("gpu-dy-p5-1")
        (nodes.folder.parent / "job" / "gone").touch()
        assert end(scheduler, job) is JobState.COMPLETED
        first, _ = scheduler.attempts(job)
        assert (first.node_lost, first.exit_code) == (True, None)

    def test_job_ended_before_node_loss_stays_completed(self, scheduler, submit):
        job = submit("exit 0")
        end(scheduler, job)
        scheduler.node_lost("gpu-dy-p5-1")
        assert scheduler.state(job) is JobState.COMPLETED
        assert not scheduler.attempts(job)[0].node_lost


class TestCommands:
    def test_srun_tasks_have_node_specific_variables(self, scheduler, submit, output):
        job = submit(
            "srun --nodes=2 --ntasks-per-node=1 --kill-on-bad-exit=0 bash -c"
            " 'echo $SLURM_STEP_ID $SLURM_STEP_NUM_NODES $SLURM_NODEID $SLURM_PROCID"
            " $SLURMD_NODENAME $SLIPWAY_SCRATCH'",
            "--nodes=2",
        )
        assert end(scheduler, job) is JobState.COMPLETED
        lines = sorted(line.split() for line in output().splitlines())
        assert [line[:5] for line in lines] == [
            ["0", "2", "0", "0", "gpu-dy-p5-1"],
            ["0", "2", "1", "1", "gpu-dy-p5-2"],
        ]
        assert lines[0][5] != lines[1][5]

    def test_srun_returns_worst_exit_code(self, scheduler, submit):
        job = submit("srun bash -c 'exit $((SLURM_NODEID * 75))'; code=$?; exit $code", "--nodes=2", "--no-requeue")
        end(scheduler, job)
        assert scheduler.attempts(job)[0].exit_code == 75

    def test_srun_steps_are_numbered(self, scheduler, submit, output):
        end(scheduler, submit("for i in 1 2; do srun bash -c 'echo $SLURM_STEP_ID'; done"))
        assert output() == "0\n1\n"

    def test_scontrol_lists_hosts_of_job(self, scheduler, submit, output):
        end(scheduler, submit('scontrol show hostnames "$SLURM_JOB_NODELIST"', "--nodes=2"))
        assert output().split() == ["gpu-dy-p5-1", "gpu-dy-p5-2"]

    def test_scontrol_shows_address_of_job_nodes(self, scheduler, submit, output):
        ask = 'for each in $(scontrol show hostnames) other; do scontrol show node --oneliner "$each" || true; done'
        end(scheduler, submit(ask, "--nodes=2"))
        first, second, other = output().splitlines()
        assert [line.split()[1] for line in (first, second)] == [
            f"NodeAddr={node_address(f'gpu-dy-p5-{number}')}" for number in (1, 2)
        ]
        assert first != second
        assert other == "Node other not found"

    def test_job_requeues_from_inside(self, scheduler, submit):
        job = submit('[ -n "${SLURM_RESTART_COUNT-}" ] || scontrol requeue $SLURM_JOB_ID')
        assert end(scheduler, job) is JobState.COMPLETED
        assert len(scheduler.attempts(job)) == 2

    def test_unsupported_scontrol_command_fails(self, scheduler, submit, output):
        end(scheduler, submit("scontrol reconfigure || echo refused $?"))
        assert "refused 1" in output()


def test_attempts_are_visible_from_other_threads(scheduler, submit):
    job = submit("sleep 0.3")
    states = []
    thread = threading.Thread(target=lambda: states.append(end(scheduler, job)))
    thread.start()
    thread.join()
    assert states == [JobState.COMPLETED]
