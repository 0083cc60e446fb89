"""Parsing Slurm's output, including forms of other versions and of machines without accounting."""

from datetime import UTC, datetime

import pytest

from launcher.model.job import JobState
from launcher.submit.jobs import SchedulerError, UnreachableError
from launcher.submit.shell import Frame
from launcher.submit.slurm_output import parse_sacct, parse_sbatch, parse_scontrol

# sacct --duplicates --parsable2, SLURM_TIME_FORMAT=%s: State|Start|End|ExitCode|NodeList|JobName
TWICE = """NODE_FAIL|1780000000|1780000600|0:0|p5-dy-nodes-[1-2]|tiny-1
CANCELLED by 1000|1780000800|1780000900|0:15|p5-dy-nodes-1|tiny-1
"""
RUNNING = "REQUEUED|1780000000|1780000600|75:0|a-1|tiny-1\nRUNNING|1780000700|Unknown|0:0|a-1|tiny-1\n"
WAITING = "REQUEUED|1780000000|1780000600|75:0|a-1|tiny-1\nPENDING|Unknown|Unknown|0:0|None assigned|tiny-1\n"


def at(seconds):
    return datetime.fromtimestamp(seconds, UTC)


def test_accounting_gives_every_attempt_of_a_job():
    facts, attempts = parse_sacct(TWICE)
    assert (facts.state, facts.word, facts.restarts) == (JobState.CANCELLED, "CANCELLED", 1)
    first, second = attempts
    assert (first.node_lost, first.exit_code, first.nodes) == (True, None, ("p5-dy-nodes-1", "p5-dy-nodes-2"))
    assert (first.started_at, first.ended_at) == (at(1780000000), at(1780000600))
    assert (second.number, second.exit_code, second.signal) == (2, 0, 15)


def test_running_attempt_has_no_end():
    facts, attempts = parse_sacct(RUNNING)
    assert (facts.state, facts.nodes) == (JobState.RUNNING, ("a-1",))
    assert [attempt.exit_code for attempt in attempts] == [75, None]
    assert attempts[1].ended_at is None


def test_requeued_job_waiting_for_an_attempt_is_pending():
    facts, attempts = parse_sacct(WAITING)
    assert (facts.state, facts.restarts, len(attempts), facts.nodes) == (JobState.PENDING, 1, 1, ())


def test_job_unknown_to_the_accounting_is_none():
    assert parse_sacct("") is None
    assert parse_sacct("slurm_persist_conn_open: something\n") is None


@pytest.mark.parametrize("printed", ["", "slurm_load_jobs error", "JobId=1 Reason=None"])
def test_scontrol_output_without_a_job_is_refused(printed):
    with pytest.raises(SchedulerError, match="printed no job"):
        parse_scontrol(printed)


@pytest.mark.parametrize("printed", ["", "Submitted batch job", "error 12 failed"])
def test_sbatch_output_without_a_job_id_is_refused(printed):
    with pytest.raises(SchedulerError, match="printed no job id"):
        parse_sbatch(printed)


class TestFrame:
    FRAME = Frame(mark="m")

    def test_answer_is_read_between_the_marks(self):
        answer = self.FRAME.answer("motd\n\nm begin\nhello\n\nm end 3\nbye", "", "x")
        assert (answer.code, answer.out) == (3, "hello\n")

    @pytest.mark.parametrize("out", ["\nm begin\nhello\n\nm end", "\nm begin\nhel", "\nm begin\nhello\n\nm end 3"])
    def test_answer_with_a_truncated_frame_is_unreachable(self, out):
        with pytest.raises(UnreachableError, match="answer was incomplete"):
            self.FRAME.answer(out, "", "x")

    def test_every_frame_has_another_mark(self):
        assert Frame.fresh().mark != Frame.fresh().mark
