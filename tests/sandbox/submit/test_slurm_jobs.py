"""Submitting to a real Slurm on this machine exactly once, despite failures."""

import pytest

from launcher.model.errors import ImpossibleError
from launcher.model.job import JobState, Submitted
from launcher.submit.jobs import SchedulerError, UnreachableError
from tests.sandbox.submit.conftest import TYPE
from tests.waiting import until

pytestmark = [pytest.mark.slurm, pytest.mark.xdist_group("slurm-submit")]


def end_of(slurm, job):
    def state():
        facts = slurm.facts(job)
        return facts if facts is None or facts.state.final else False

    return until(state)


class TestSubmit:
    def test_job_runs_in_job_folder_under_key(self, head, local):
        folder = head.folder_with("pwd; exit 3")
        job = local.submit("tiny-1", folder, "job.sbatch")
        facts = end_of(local, job)
        assert (facts.state, facts.attempt.exit_code, facts.attempt.number) == (JobState.FAILED, 3, 1)
        assert facts.attempt.started_at.tzinfo is not None
        assert facts.attempt.started_at <= facts.attempt.ended_at
        assert head.jobs("--name=tiny-1") == [["tiny-1", job.job, "FAILED"]]
        assert (head.home / "job" / f"slurm-{job.job}.out").read_text().strip() == folder

    def test_second_submission_of_key_finds_first_job(self, head, local):
        folder = head.folder_with("sleep 60")
        first = local.submit("tiny-2", folder, "job.sbatch")
        assert local.submit("tiny-2", folder, "job.sbatch") == first
        assert len(head.jobs("--name=tiny-2")) == 1

    def test_submission_without_recorded_id_found_in_queue(self, head, local):
        folder = head.folder_with("sleep 60")
        first = local.submit("tiny-3", folder, "job.sbatch")
        (head.home / "job" / ".slipway-job").unlink()
        assert local.submit("tiny-3", folder, "job.sbatch") == first
        assert len(head.jobs("--name=tiny-3")) == 1

    def test_job_gone_from_queue_found_by_output_file(self, head, local):
        folder = head.folder_with("exit 0")
        (head.home / "job" / "slurm-4711.out").touch()
        assert local.submit("tiny-4", folder, "job.sbatch").job == "4711"
        assert head.jobs("--name=tiny-4") == []

    def test_sbatch_timeout_after_acceptance_makes_no_second_job(self, head, local):
        head.shadow_program("sbatch", '{real} "$@" >/dev/null\necho "sbatch: error: Socket timed out" >&2\nexit 1\n')
        job = local.submit("tiny-5", head.folder_with("sleep 60"), "job.sbatch")
        assert [job[:2] for job in head.jobs("--name=tiny-5")] == [["tiny-5", job.job]]

    def test_unreachable_queue_prevents_submission(self, head, local):
        head.shadow_program("squeue", 'echo "slurm_load_jobs error: Unable to contact slurm controller" >&2\nexit 1\n')
        folder = head.folder_with("exit 0")
        with pytest.raises(UnreachableError, match="unknown whether Slurm accepted the job"):
            local.submit("tiny-6", folder, "job.sbatch")
        assert head.jobs("--name=tiny-6") == []

    def test_sbatch_refusal_is_reported_at_once(self, head, local):
        with pytest.raises(SchedulerError, match=r"sbatch refuses the job: .*invalid partition") as refused:
            local.submit("tiny-7", head.folder_with("exit 0"), "job.sbatch", partition="nowhere")
        assert not isinstance(refused.value, UnreachableError)

    @pytest.mark.parametrize("key", ["", "a b", "$(id)", "-x", "a;b"])
    def test_invalid_job_key_refused(self, head, local, key):
        with pytest.raises(SchedulerError, match="not a key"):
            local.submit(key, str(head.home), "job.sbatch")


class TestLook:
    def test_requeued_job_is_pending_and_counts_restarts(self, head, local):
        job = local.submit("again-1", head.folder_with("sleep 60", "--requeue"), "job.sbatch")
        until(lambda: local.facts(job).state is JobState.RUNNING)
        assert local.facts(job).nodes[0].startswith("p5-48xlarge-dy-nodes-")
        head.slurm.run("scontrol", "requeue", job.job)
        facts = until(lambda: (job_facts := local.facts(job)).state is JobState.PENDING and job_facts)
        assert (facts.restarts, facts.nodes) == (1, ())

    def test_pending_job_gives_reason(self, head, local):
        job = local.submit("wait-1", head.folder_with("true", "--begin=now+1hour"), "job.sbatch")
        facts = local.facts(job)
        assert (facts.state, facts.reason, facts.attempt) == (JobState.PENDING, "BeginTime", None)
        assert local.attempts(job) == ()

    def test_job_of_other_name_under_same_id_is_foreign(self, head, local):
        job = local.submit("mine-1", head.folder_with("sleep 60"), "job.sbatch")
        other = Submitted(job=job.job, key="theirs-1", folder=job.folder)
        assert local.facts(other) is None
        local.cancel(other)
        assert local.facts(job).state is not JobState.CANCELLED

    def test_cancel_twice_is_no_error(self, head, local):
        job = local.submit("stop-1", head.folder_with("sleep 60"), "job.sbatch")
        local.cancel(job)
        assert end_of(local, job).state is JobState.CANCELLED
        local.cancel(job)

    def test_files_are_read_from_offset(self, head, local):
        job = local.submit("read-1", head.folder_with("printf 'a\\0b\\n'; printf 'ü\\n'"), "job.sbatch")
        end_of(local, job)
        log = f"slurm-{job.job}.out"
        chunks = local.read(job, {log: 0, "nothing": 0})
        assert (chunks[log].data, chunks[log].size, chunks["nothing"]) == (b"a\0b\n\xc3\xbc\n", 7, None)
        assert local.read(job, {log: 4})[log].data == b"\xc3\xbc\n"
        assert local.read(job, {log: 7})[log].data == b""

    def test_partition_found_by_name_or_node_type(self, local):
        assert local.partition("p5-48xlarge", "other") == "p5-48xlarge"
        assert local.partition("gpu", TYPE) == "p5-48xlarge"
        with pytest.raises(SchedulerError, match=r"no partition gpu and no node .* available: .*p5-48xlarge"):
            local.partition("gpu", "p6-b200.48xlarge")


class TestNodes:
    def test_command_on_job_node_returns_exit_code(self, head, local, capfd):
        job = local.submit("nodes-1", head.folder_with("sleep 60", "--partition=p5-48xlarge"), "job.sbatch")
        until(lambda: local.facts(job).state is JobState.RUNNING)
        nodes = local.nodes(job)
        assert nodes.run(nodes.names[0], ["bash", "-c", "echo in $PWD of $SLURM_JOB_ID; exit 7"]) == 7
        assert capfd.readouterr().out == f"in {job.folder} of {job.job}\n"
        local.cancel(job)
        end_of(local, job)
        with pytest.raises(ImpossibleError, match=f"job {job.job} runs on no node: it is CANCELLED"):
            local.nodes(job)
