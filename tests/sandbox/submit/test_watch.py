"""When a followed job counts as ended, with jobs of a real Slurm."""

import itertools

import pytest

from launcher.model.job import JobState, Submitted
from launcher.submit.jobs import UnreachableError
from launcher.submit.slurm import Slurm, log_name
from launcher.workflow.run.follow import FIRST_LINE
from launcher.workflow.run.submission_watch import PATIENCE_S, Mirror, RemoteWatch
from tests.waiting import until

pytestmark = [pytest.mark.slurm, pytest.mark.xdist_group("slurm-submit")]


@pytest.fixture
def remote_watch(tmp_path):
    def make(slurm, job, **more):
        mirror = Mirror(source=slurm, job=job, folder=tmp_path / "mirror")
        messages = []
        return RemoteWatch(mirror=mirror, poll_s=0.0, notify=messages.append, **more), messages

    return make


def test_interrupted_job_restarts_without_two_minute_wait(head, local, remote_watch):
    text = f'echo "{FIRST_LINE}"\n[ "${{SLURM_RESTART_COUNT:-0}}" = 1 ] || exit 75\necho done'
    job = local.submit("again-2", head.folder_with(text, "--requeue", "--open-mode=append"), "job.sbatch")
    watched, messages = remote_watch(local, job)
    until(watched.ended)
    assert (watched.facts.state, watched.facts.restarts) == (JobState.COMPLETED, 1)
    assert (watched.mirror.folder / log_name(job)).read_text() == f"{FIRST_LINE}\n{FIRST_LINE}\ndone\n"
    assert any("waits" in line for line in messages)


class Noted:
    """A shell that notes what is run."""

    def __init__(self, shell):
        self.shell, self.scripts = shell, []

    def run(self, script, **more):
        self.scripts.append(script)
        return self.shell.run(script, **more)

    def __getattr__(self, name):
        return getattr(self.shell, name)


def test_requeue_delay_shortened_by_one_order(head, local, remote_watch):
    text = '[ "${SLURM_RESTART_COUNT:-0}" = 1 ] || exit 75'
    job = local.submit("again-3", head.folder_with(text, "--requeue", "--open-mode=append"), "job.sbatch")
    noted = Noted(local.shell)
    watched, _ = remote_watch(Slurm(shell=noted), job)
    until(watched.ended)
    assert watched.facts.state is JobState.COMPLETED
    assert sum("StartTime=now+1" in script for script in noted.scripts) == 1


def test_failed_job_is_over_at_once(head, local, remote_watch):
    job = local.submit("fails-1", head.folder_with("exit 3"), "job.sbatch")
    watched, _ = remote_watch(local, job)
    until(watched.ended)
    assert watched.facts.state is JobState.FAILED


def test_job_unknown_to_slurm_is_over(head, local, remote_watch):
    folder = head.folder_with("true")
    watched, _ = remote_watch(local, Submitted(job="999999", key="gone-1", folder=folder))
    assert watched.ended()
    assert watched.facts is None


def test_restarted_file_is_copied_from_start(head, local, remote_watch):
    job = local.submit("file-1", head.folder_with("sleep 60"), "job.sbatch")
    watched, _ = remote_watch(local, job)
    metrics = head.home / "job" / "metrics.jsonl"
    metrics.write_text("a long first line\n")
    watched.mirror.sync()
    metrics.write_text("short\n")
    watched.mirror.sync()
    assert (watched.mirror.folder / "metrics.jsonl").read_text() == "short\n"


def test_unreachable_server_reported_once_until_limit(head, remote, sshd, remote_watch):
    job = remote.submit("quiet-1", head.folder_with("sleep 60"), "job.sbatch")
    sshd.stop()
    remote.shell.close()
    clock = itertools.count(0, PATIENCE_S / 8)
    watched, messages = remote_watch(Slurm(shell=remote.shell), job, clock=lambda: float(next(clock)))
    with pytest.raises(UnreachableError):
        until(watched.ended)
    assert next(clock) > 10
    assert len([line for line in messages if "checking again" in line]) == 1
