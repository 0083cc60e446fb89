"""A launch that follows a cluster which someone removes: it ends, and counts no more dollars."""

from datetime import UTC, datetime

import pytest

from launcher.model.job import JobFacts, JobState, SchedulerAttempt, Submitted
from launcher.model.report import EndedBy
from launcher.submit.jobs import SchedulerError, UnreachableError
from launcher.workflow.history.attempts import attempts, close_last
from launcher.workflow.run.submission_watch import REMOVED_AGAIN_S, ClusterRemovedError, Mirror, RemoteWatch

BEGAN = datetime(2026, 11, 28, 3, tzinfo=UTC)
ATTEMPT = SchedulerAttempt(number=1, started_at=BEGAN, ended_at=None, exit_code=None, signal=0, nodes=("n1",))
RUNNING = JobFacts(state=JobState.RUNNING, word="RUNNING", reason="", restarts=0, nodes=("n1",), attempt=ATTEMPT)
GONE = "cluster tiny is being removed since 2026-11-28 04:00 UTC (DELETE_IN_PROGRESS)"


class HeadNode:
    """A scheduler that answers, or fails in one way."""

    def __init__(self):
        self.problem = None

    def facts(self, _job):
        if self.problem is not None:
            raise self.problem
        return RUNNING

    def read(self, _job, offsets):
        return dict.fromkeys(offsets)

    def log_name(self, _job):
        return "log"


@pytest.fixture
def follow(tmp_path):
    """A watch, its head node, the answers on its removal, its messages and its clock."""
    head, answers, messages, now = HeadNode(), [""], [], [0.0]
    job = Submitted(job="7", key="tiny-1", folder="tiny")
    watch = RemoteWatch(
        mirror=Mirror(source=head, job=job, folder=tmp_path / "mirror"),
        poll_s=1.0,
        notify=messages.append,
        removed=lambda: answers.pop(0) if len(answers) > 1 else answers[0],
        clock=lambda: now[0],
    )
    assert not watch.ended()
    return watch, head, answers, messages, now


@pytest.mark.parametrize("problem", [UnreachableError("no answer"), SchedulerError("the instance does not exist")])
def test_cluster_removed_at_first_silence_ends_launch_with_6(follow, problem):
    watch, head, answers, messages, now = follow
    head.problem, answers[:], now[0] = problem, [GONE], 2.0
    with pytest.raises(ClusterRemovedError, match=r"being removed since .*: job 7 has ended with it") as raised:
        watch.ended()
    assert raised.value.exit_code == 6
    assert not [line for line in messages if "continues" in line]
    (ended,) = close_last(
        attempts([{"event": "attempt-started", "attempt": 1, "time": BEGAN.isoformat()}]), watch.facts
    )
    assert ended.ended_by is EndedBy.NODE_LOST
    assert ended.ended_at > BEGAN


def test_cluster_removed_during_silence_ends_launch(follow):
    """The head node is silent first, and its stack is removed after that."""
    watch, head, answers, messages, now = follow
    head.problem, answers[:] = UnreachableError("no answer"), ["", GONE]
    now[0] = 2.0
    assert not watch.ended()
    assert "the job continues" in messages[-1]
    now[0] = 4.0
    assert not watch.ended()  # the account is not asked at every poll
    now[0] = 3.0 + REMOVED_AGAIN_S
    with pytest.raises(ClusterRemovedError):
        watch.ended()


def test_head_node_error_with_existing_cluster_is_kept(follow):
    watch, head, _, _, now = follow
    head.problem, now[0] = SchedulerError("Slurm refuses"), 2.0
    with pytest.raises(SchedulerError, match="Slurm refuses"):
        watch.ended()
