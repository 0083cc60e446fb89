"""The rendered batch script and the agent's single file on nodes of a real Slurm, with a training command.

The ranks go in step, as collectives make them: each waits for the others at every step, through files. What they train
is a chain of hashes, so the end shows whether any step was lost, repeated or taken from another state. Where something
is to be killed in the middle of a step, the first attempt waits in that step until it is.
"""

import os
import signal
from pathlib import Path

import pytest

from launcher.agent.node.process_table import process_of
from launcher.model.job import JobState
from launcher.sandbox import processes
from tests.sandbox.agent.slurm_job import HOLD
from tests.waiting import until

pytestmark = [pytest.mark.slurm, pytest.mark.xdist_group("slurm-job")]


def test_notice_on_one_node_ends_job_and_drains_only_noticed_node(job, slurm_cluster):
    job.submit()
    job_nodes = until(lambda: slurm_cluster.scheduler.nodes(job.id))
    until(lambda: job.events("checkpoint-uploaded"), job.describe)
    slurm_cluster.services[job_nodes[1]].arm()
    until(lambda: job.state() is JobState.PENDING, job.describe)
    assert job.events("drained", part=1)
    assert not job.events("drained")
    assert job.events("notice")[0]["from_node"] == job_nodes[1]
    assert [job.events("interrupted", part=part)[0]["exit_code"] for part in (0, 1)] == [75, 75]
    slurm_cluster.slurm.kill_node(job_nodes[1])
    slurm_cluster.renew(job_nodes[1])
    job.back()
    job.ends_as_if_nothing_had_been()
    # With a notice nothing is lost: it goes on from the step that the ranks left at.
    saved = max(event["step"] for event in job.events("checkpoint-uploaded", attempt=1))
    assert job.events("restored", attempt=2)[0]["step"] == saved


@pytest.mark.parametrize(
    "which", [pytest.param(0, id="the batch host", marks=pytest.mark.slow), pytest.param(1, id="another node")]
)
def test_lost_node_costs_work_since_last_checkpoint(job, slurm_cluster, bucket, which):
    job.submit()
    job_nodes = until(lambda: slurm_cluster.scheduler.nodes(job.id))
    until(lambda: job.events("checkpoint-uploaded"), job.describe)
    slurm_cluster.take(job_nodes[which], job.id)
    whole = bucket.whole()[-1]
    job.back()
    job.ends_as_if_nothing_had_been()
    assert job.events("restored", attempt=2)[0]["step"] >= whole


@pytest.mark.parametrize("catches", ["SIGUSR1", pytest.param("SIGTERM", marks=pytest.mark.slow)])
def test_time_limit_signal_saves_checkpoint_and_requeues(job, slurm_cluster, catches):
    job.prepare(catches=catches)
    job.submit()
    until(lambda: job.events("checkpoint-uploaded"), job.describe)
    slurm_cluster.slurm.run("scancel", "--batch", "--signal=USR1", job.id)  # as slurmctld does for --signal=B:USR1@n
    until(lambda: job.state() is JobState.PENDING, job.describe)
    for part in (0, 1):
        assert job.events("notice", part=part)[0]["source"] == "signal"
    assert job.events("interrupted")[0]["ended_by"] == "time-limit"
    assert [event["signal"] for event in job.events("signalled")] == [catches]
    job.back()
    job.ends_as_if_nothing_had_been()


@pytest.mark.slow
def test_killed_ranks_beyond_retries_fail_job(job):
    job.in_the_middle_of_a_step(grace=2)
    os.kill(job.events("command-started", part=0)[0]["pid"], signal.SIGKILL)
    until(lambda: job.state().final, job.describe)
    assert job.state() is JobState.FAILED
    assert job.cluster.scheduler.attempts(job.id)[0].exit_code == 128 + signal.SIGKILL


DAEMONS = """
import os, subprocess, sys, time
if os.environ["SLIPWAY_ATTEMPT"] == "1":
    code = "import os, sys, time; file = open(sys.argv[1], 'w'); print(os.getpid(), file=file, flush=True)"
    for name, environment in (("marked", None), ("cleared", {})):
        path = os.path.join(os.environ["SLIPWAY_CHECKPOINT_DIR"], f"{name}-{os.getpid()}")
        words = [sys.executable, "-c", f"{code}; time.sleep(600)", path]
        subprocess.Popen(words, env=environment, start_new_session=True)
        while not os.path.exists(path) or not open(path).read().endswith("\\n"):
            time.sleep(0.01)
        with open(f"{name}-{os.environ['SLURM_NODEID']}", "w") as file:
            file.write(open(path).read())
"""
"""As torchrun's ranks, in a session of its own, and a daemon without the job's variables that writes to its folder."""


@pytest.mark.parametrize("killed", [pytest.param("agents", marks=pytest.mark.slow), "rank"])
def test_killed_command_is_retried_after_its_processes_in_own_sessions_end(job, killed):
    """Slurm without cgroups ends only what is below its step."""
    work = job.folder / "work"
    (work / "train.py").write_text(DAEMONS + (work / "train.py").read_text())
    job.in_the_middle_of_a_step(retries=1, grace=2)
    daemons = {int(path.read_text()) for path in work.glob("*ed-[01]")}
    assert len(daemons) == 4
    assert all(map(process_of, daemons))
    commands = [job.events("command-started", part=part)[0]["pid"] for part in (0, 1)]
    for pid in map(parent, commands) if killed == "agents" else commands[1:]:
        os.kill(pid, signal.SIGKILL)
    job.back()
    until(lambda: all(job.events("command-started", attempt=2, part=part) for part in (0, 1)), job.describe)
    assert not list(filter(process_of, daemons))
    ended = " ".join(event["reason"] for part in (0, 1) for event in job.events("processes-ended", part=part))
    assert all(f"(process {pid})" in ended for pid in daemons)
    job.ends_from_its_checkpoint()
    if killed == "rank":
        assert job.events("failed", part=1)[0]["exit_code"] == 128 + signal.SIGKILL
        assert (job.folder / "failures").read_text() == "1\n"


def parent(pid):
    return int(Path(f"/proc/{pid}/status").read_text().partition("PPid:")[2].split()[0])


@pytest.mark.slow
def test_manually_requeued_job_resumes(job, slurm_cluster):
    job.in_the_middle_of_a_step()
    slurm_cluster.slurm.run("scontrol", "requeue", job.id)
    job.goes_on_and_ends()


@pytest.mark.slow
def test_node_set_down_requeues_and_job_resumes(job, slurm_cluster):
    node = job.in_the_middle_of_a_step()[1]
    slurm_cluster.slurm.declare_down(node, "maintenance")
    until(lambda: job.state() is JobState.PENDING, job.describe)
    slurm_cluster.slurm.settle(node)
    job.goes_on_and_ends()


@pytest.mark.slow
@pytest.mark.parametrize("which", [pytest.param(0, id="the batch host's"), pytest.param(1, id="another node's")])
def test_killed_slurmd_requeues_and_job_resumes(job, slurm_cluster, which):
    """Its steps outlive it; Slurm gives the node up when SlurmdTimeout is over."""
    node = job.in_the_middle_of_a_step()[which]
    slurm_cluster.slurm.kill_slurmd(node)
    until(lambda: job.state() is JobState.PENDING, job.describe)
    slurm_cluster.slurm.restart_slurmd(node)
    job.goes_on_and_ends()


@pytest.mark.slow
def test_killed_slurmstepd_requeues_and_job_resumes(job, slurm_cluster):
    node = job.in_the_middle_of_a_step(retries=1)[1]
    for pid in slurm_cluster.slurm.step_daemons(node):
        processes.send(pid, signal.SIGKILL)
    job.goes_on_and_ends()


@pytest.mark.slow
def test_one_lost_node_of_four_requeues_and_job_resumes(job, slurm_cluster):
    node = job.in_the_middle_of_a_step(nodes=4)[2]
    slurm_cluster.take(node, job.id)
    job.goes_on_and_ends()


@pytest.mark.slow
def test_time_limit_requeues_and_job_resumes(job):
    """Of three minutes: the signal is due at half of it, and Slurm may send it a minute early."""
    job.in_the_middle_of_a_step(time_limit_h=3 / 60)
    job.goes_on_and_ends()
    assert job.events("interrupted", attempt=1)[0]["ended_by"] == "time-limit"
    assert job.events("restored", attempt=2)[0]["step"] == HOLD
