"""The end of an attempt at `run.time_limit_h`, by the agent's own clock and by Slurm's signal."""

import signal

import pytest

HOURS = 100_000
UNDER_SLURM = {"SLURM_JOB_ID": "7"}


def signalled(node, *, after, attempt=1):
    """The exit code of an agent that gets Slurm's signal after an event."""
    agent = node.start(**UNDER_SLURM, SLURM_RESTART_COUNT=str(attempt - 1))
    node.wait_until(lambda: node.events(after, attempt))
    agent.send_signal(signal.SIGUSR1)
    return agent.wait(timeout=90)


def test_time_limit_without_scheduler_saves_and_ends_job(node, bucket):
    node.job(HOURS, 0.05, 10, save_after_s=6.0)
    assert node.run() == 80
    (ended,) = node.events("failed")
    assert (ended["ended_by"], ended["notice"]) == ("time-limit", "time-limit")
    assert ended["reason"] == "the time limit (run.time_limit_h) is over; launch again to resume"
    assert node.events("signalled")[0]["signal"] == "SIGUSR1"
    assert bucket.whole()[-1] == node.last_step()


def test_command_shorter_than_time_limit_completes(node, bucket):
    node.job(5, 0, 10, save_after_s=60.0)
    assert node.run() == 0
    assert not node.events("notice")


@pytest.mark.parametrize("environment", [{}, UNDER_SLURM])
def test_time_limit_with_mode_none_ends_job_for_good(node, bucket, environment):
    node.job(HOURS, 0.05, 10, mode="none", uri=None, save_after_s=5.0, grace_seconds=2.0)
    agent = node.start(**environment)
    node.wait_for("command-started")
    if environment:
        agent.send_signal(signal.SIGUSR1)
    assert agent.wait(timeout=90) == 80
    (ended,) = node.events("failed")
    assert ended["ended_by"] == "time-limit"
    assert "no checkpoint was stored (checkpoint.mode: none), so another attempt would repeat it" in ended["reason"]


def test_slurm_time_limit_after_stored_checkpoint_requeues(node, bucket):
    node.job(HOURS, 0.05, 10, save_after_s=5.0)
    assert signalled(node, after="checkpoint-uploaded") == 75
    assert node.events("interrupted")[0]["ended_by"] == "time-limit"


def test_slurm_time_limit_of_attempt_that_stored_nothing_ends_job(node, bucket):
    node.job(5, 0, 2, save_after_s=5.0)
    assert node.run(**UNDER_SLURM) == 0
    node.job(command=("sleep", "600"), save_after_s=5.0, grace_seconds=2.0)
    assert signalled(node, after="command-started", attempt=2) == 80
    assert "no checkpoint was stored, so" in node.events("failed")[0]["reason"]


def test_slurm_signal_long_before_time_limit_requeues(node, bucket):
    node.job(HOURS, 0.05, 10, mode="none", uri=None, save_after_s=3600.0, grace_seconds=2.0)
    assert signalled(node, after="command-started") == 75
