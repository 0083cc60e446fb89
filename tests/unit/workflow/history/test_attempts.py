"""Attempts read from events."""

import json
import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from launcher.agent import ending
from launcher.agent.shape import moment
from launcher.model.job import JobFacts, JobState
from launcher.model.job import SchedulerAttempt as ScheduledAttempt
from launcher.model.report import EndedBy
from launcher.records.run_folder import RunFolder
from launcher.workflow.history.attempts import (
    attempts,
    cancelled_attempts,
    close_last,
    explained_attempts,
    interrupted_attempts,
    job_events,
    read_events,
    record_loss,
)

EVENTS = [
    {"time": "2026-11-20T12:00:00.000Z", "event": "attempt-started", "attempt": 1},
    {"time": "2026-11-20T12:00:01.000Z", "event": "nothing-restored", "attempt": 1},
    {"time": "2026-11-20T12:01:00.000Z", "event": "checkpoint-uploaded", "attempt": 1, "step": 90},
    {"event": "attempt-progress", "attempt": 1, "step": 97},
    {
        "time": "2026-11-20T12:02:00.000Z",
        "event": "interrupted",
        "attempt": 1,
        "ended_by": "spot-interruption",
        "exit_code": 75,
    },
    {"time": "2026-11-20T12:03:00.000Z", "event": "attempt-started", "attempt": 2},
    {"time": "2026-11-20T12:03:01.000Z", "event": "restored", "attempt": 2, "step": 97},
]


def test_interrupted_attempt_and_running_attempt_are_read() -> None:
    first, second = attempts(EVENTS)
    assert (first.ended_by, first.exit_code, first.resumed_from_step, first.last_step) == (
        "spot-interruption",
        75,
        0,
        97,
    )
    assert first.hours == 120 / 3600
    assert (second.resumed_from_step, second.ended_at, second.ended_by) == (97, None, None)


def test_attempt_without_end_event_ends_at_next_start() -> None:
    first, second = attempts([EVENTS[0], EVENTS[2], EVENTS[-2]])
    assert (first.ended_by, first.exit_code, first.hours, first.last_step) == ("node-lost", None, 3 / 60, 90)
    assert second.ended_at is None


@pytest.mark.parametrize("more,last", [({"step": 100}, 100), ({"step": 60}, 90), ({"step": 100, "counted": True}, 90)])
def test_last_step_is_at_least_the_one_that_the_next_attempt_restored(more: dict[str, object], last: int) -> None:
    first, second = attempts([EVENTS[0], EVENTS[2], EVENTS[-2], {**EVENTS[-1], **more}])
    assert (first.last_step, second.resumed_from_step, second.last_step) == (last, more["step"], None)


def test_last_attempt_without_end_event_ends_as_scheduler_reports() -> None:
    ran = attempts(EVENTS)
    known = ScheduledAttempt(
        number=2,
        started_at=ran[1].started_at,
        ended_at=ran[1].started_at + timedelta(hours=2),
        exit_code=None,
        signal=9,
        nodes=("n1",),
    )
    facts = facts_of(JobState.FAILED, "FAILED", known)
    assert [attempt.hours for attempt in close_last(ran, facts)] == [120 / 3600, 2.0]
    assert close_last(ran[:1], facts) == ran[:1], "its agent has said when"
    assert close_last(ran, replace(facts, attempt=replace(known, ended_at=None))) == close_last(ran, None) == ran
    assert close_last(ran, replace(facts, state=JobState.PENDING)) == ran, "its scheduler starts it again"
    assert close_last((), facts) == ()


@pytest.mark.parametrize(
    "state,word,node_lost,expected",
    [
        (JobState.FAILED, "NODE_FAIL", True, "node-lost"),
        (JobState.FAILED, "OUT_OF_MEMORY", False, "failure"),
        (JobState.FAILED, "TIMEOUT", False, "time-limit"),
        (JobState.FAILED, "DeadlineExceeded", False, "time-limit"),
        (JobState.FAILED, "stopped; 100 of 400 seconds billed for each instance", False, "time-limit"),
        (JobState.FAILED, "failed", False, "failure"),
        (JobState.CANCELLED, "stopped", False, "cancel"),
        (JobState.COMPLETED, "COMPLETED", False, "completed"),
    ],
)
def test_ended_by_without_an_end_event_follows_the_scheduler(state, word, node_lost, expected):
    ran = attempts([STARTED])
    over = ScheduledAttempt(
        number=1,
        started_at=ran[0].started_at,
        ended_at=ran[0].started_at,
        exit_code=None,
        signal=9,
        nodes=("n1",),
        node_lost=node_lost,
    )
    (attempt,) = close_last(ran, facts_of(state, word, over))
    assert attempt.ended_by == EndedBy(expected)


def facts_of(state, word, attempt):
    return JobFacts(state=state, word=word, reason="", restarts=0, nodes=(), attempt=attempt)


def test_no_events_give_no_attempts() -> None:
    assert attempts([]) == ()


def test_unfinished_event_line_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    assert read_events(path) == []
    path.write_text('{"event": "agent-built"}\n{"event": "rest')
    assert read_events(path) == [{"event": "agent-built"}]


STARTED = {"event": "attempt-started", "attempt": 1, "time": "2026-11-20T12:00:00Z", "node": "n1"}
ENDED = {"attempt": 1, "time": "2026-11-20T13:00:00Z", "exit_code": 75}
WORDS = [
    *(
        (word, word)
        for word in ("spot-interruption", "time-limit", "completed", "node-lost", "failure", "cancel", "budget")
    ),
    *(("pod-end", "spot-interruption"), ("scheduler-signal", "time-limit"), ("capacity-end", "time-limit")),
]


@pytest.mark.parametrize("word,expected", WORDS)
def test_agent_end_word_maps_to_report_ending(word, expected):
    (attempt,) = attempts([STARTED, {**ENDED, "event": "interrupted", "ended_by": word}])
    assert attempt.ended_by == EndedBy(expected)


@pytest.mark.parametrize(
    "event,expected",
    [("completed", "completed"), ("failed", "failure"), ("cancelled", "cancel"), ("stopped", "budget")],
)
@pytest.mark.parametrize("word", [None, "a word of another version"])
def test_unknown_end_word_falls_back_to_event(event, expected, word):
    (attempt,) = attempts([STARTED, {**ENDED, "event": event, "ended_by": word}])
    assert attempt.ended_by == EndedBy(expected)


def test_cancelled_attempt_with_a_successor_lost_its_node():
    ended = {**ENDED, "event": "cancelled", "ended_by": "cancel", "exit_code": 143}
    again = {**STARTED, "attempt": 2, "time": "2026-11-20T13:01:00Z"}
    assert [attempt.ended_by for attempt in attempts([STARTED, ended])] == [EndedBy.CANCEL]
    found = attempts([STARTED, ended, again])
    assert [attempt.ended_by for attempt in found] == [EndedBy.NODE_LOST, None]
    assert interrupted_attempts(found) == found[:1]


def test_ended_by_of_the_agent_is_a_word_of_the_report():
    written = {ending.COMPLETED, ending.FAILED, ending.NODE_LOST, *ending.ENDED_BY.values()}
    assert written == {reason.value for reason in EndedBy}


@pytest.mark.parametrize("name", ["report", "status", "ledger"])
def test_ended_by_in_the_schema_is_one_enumeration(name):
    words = ["completed", "spot-interruption", "node-lost", "failure", "cancel", "time-limit", "budget"]
    found = schemas_of("ended_by", json.loads(Path(f"docs/schemas/{name}.schema.json").read_text()))
    assert found
    assert all(schema == {"anyOf": [{"enum": words}, {"type": "null"}]} for schema in found)


def schemas_of(name, document):
    """Every schema of a property of this name in a JSON schema."""
    found = []
    for key, value in document.items():
        if key == name and isinstance(value, dict):
            found.append(value)
        for child in value if isinstance(value, list) else [value]:
            found += schemas_of(name, child) if isinstance(child, dict) else []
    return found


def test_ended_by_is_written_only_with_words_of_the_report():
    """An event of the launcher's own uses the enumeration; the agent's are compared above."""
    text = "\n".join(path.read_text() for path in Path("launcher").rglob("*.py"))
    values = set(re.findall(r"\bended_by=([^\s,)]+)", text))
    literals = {value for value in values if value[0] in "'\""}
    assert not literals, "a word written out is no member of the enumeration"


@pytest.mark.parametrize(
    "words,expected",
    [
        ({"ended_by": "spot-interruption", "notice": "pod-end"}, "cancel"),
        ({"ended_by": "pod-end"}, "cancel"),  # an agent of an earlier version
        ({"ended_by": "spot-interruption", "notice": "spot"}, "spot-interruption"),
    ],
)
def test_pod_end_of_cancelled_job_counts_as_cancel(words, expected):
    ran = cancelled_attempts(attempts([STARTED, {**ENDED, "event": "interrupted", **words}]))
    assert [attempt.ended_by for attempt in ran] == [expected]


LOST = {
    "event": "attempt-lost",
    "attempt": 2,
    "lost": 1,
    "last_seen": "2026-11-20T12:20:00Z",
    "time": "2026-11-20T22:00:01Z",
}
NEXT = {"event": "attempt-started", "attempt": 2, "time": "2026-11-20T22:00:00Z"}


class TestLostAttempt:
    """An attempt whose agent reported no end ended when its node was last seen."""

    def test_hours_of_waiting_are_not_those_of_the_lost_attempt(self):
        first, second = attempts([STARTED, NEXT, LOST])
        assert (first.hours, first.ended_by, second.ended_at) == (pytest.approx(1 / 3), EndedBy.NODE_LOST, None)

    def test_waiting_job_has_no_open_attempt(self):
        (lost,) = attempts([STARTED, LOST])
        assert (lost.hours, lost.ended_by) == (pytest.approx(1 / 3), EndedBy.NODE_LOST)

    def test_last_event_after_the_last_sign_of_life_ends_the_attempt(self):
        saved = {"event": "checkpoint-uploaded", "attempt": 1, "step": 9, "time": "2026-11-20T12:30:00Z"}
        assert attempts([STARTED, saved, NEXT, LOST])[0].hours == 0.5

    def test_attempt_that_writes_after_the_report_runs(self):
        saved = {"event": "checkpoint-uploaded", "attempt": 1, "step": 9, "time": "2026-11-20T22:10:00Z"}
        assert attempts([STARTED, LOST, saved])[0].ended_at is None

    def test_attempt_with_an_end_of_its_agent_keeps_it(self):
        end = {"event": "interrupted", **ENDED, "ended_by": "spot-interruption"}
        (ended, _) = attempts([STARTED, end, NEXT, LOST])
        assert (ended.hours, ended.ended_by) == (1.0, EndedBy.SPOT_INTERRUPTION)

    def test_last_sign_of_life_after_the_next_start_counts_until_that_start(self):
        late = LOST | {"last_seen": "2026-11-20T23:00:00Z"}
        assert attempts([STARTED, NEXT, late])[0].hours == 10.0

    @pytest.mark.parametrize("seen,hours", [("2026-11-20T12:20:00Z", 1 / 3), (None, 1 / 4)])
    def test_launcher_records_a_loss_once(self, tmp_path, seen, hours):
        folder = RunFolder(path=tmp_path)
        (tmp_path / "job").mkdir()
        restored = {"event": "restored", "attempt": 1, "step": 3, "time": "2026-11-20T12:15:00Z"}
        (tmp_path / "job" / "events.jsonl").write_text(f"{json.dumps(STARTED)}\n{json.dumps(restored)}\n")
        numbers = []

        def last_seen(number):
            numbers.append(number)
            return None if seen is None else moment(seen)

        for _ in range(2):
            lost = record_loss(folder, last_seen)
        assert (lost, numbers) == (None, [1])
        (attempt,) = attempts(job_events(folder))
        assert (attempt.hours, attempt.ended_by) == (pytest.approx(hours), EndedBy.NODE_LOST)


GUARD = {"event": "guard-stopped", "time": "2026-11-20T12:09:00Z", "reason": "its 2 hours have ended"}
CANCELLED = {"event": "cancelled", "ended_by": "cancel", "notice": "cancel"}
DRAINED = {"event": "interrupted", "ended_by": "spot-interruption", "notice": "pod-end"}
FINISHED = {"event": "completed", "ended_by": "completed"}


@pytest.mark.parametrize("cause", ["time-limit", "budget", "failure"])
@pytest.mark.parametrize("end", [CANCELLED, DRAINED])
def test_attempt_whose_nodes_the_guard_stopped_has_its_cause(end: dict[str, str], cause: str) -> None:
    """SIGTERM of an instance, of a training job, or of a drained pod: agents cannot know who sent it."""
    ended = {**end, "attempt": 1, "time": "2026-11-20T12:02:00Z"}
    stop = {**GUARD, "ended_by": cause, "at": "2026-11-20T12:01:58Z"}
    (attempt,) = explained_attempts(attempts([EVENTS[0], ended]), [stop])
    assert (attempt.ended_by, attempt.by_pod_end) == (cause, False)
    assert interrupted_attempts([attempt]) == ()


def test_attempt_killed_with_its_node_has_the_cause_of_the_guard() -> None:
    stop = {**GUARD, "ended_by": "time-limit", "at": "2026-11-20T12:02:30Z"}
    lost = {"event": "attempt-lost", "lost": 1, "last_seen": "2026-11-20T12:02:00Z", "time": "2026-11-20T12:04:00Z"}
    (attempt,) = explained_attempts(attempts([EVENTS[0], lost]), [stop])
    assert attempt.ended_by == EndedBy.TIME_LIMIT


@pytest.mark.parametrize(
    "end, at, more",
    [
        # A spot notice, a completed command, and ends before the stop are not the guard's; nor is an idle node's stop.
        ({**DRAINED, "notice": "spot"}, "12:01:58", {}),
        (FINISHED, "12:01:58", {}),
        (CANCELLED, "12:02:20", {}),
        (CANCELLED, "11:59:00", {}),
        (CANCELLED, "12:01:58", {"ended_by": ""}),
    ],
)
def test_end_of_another_cause_stays(end: dict[str, str], at: str, more: dict[str, str]) -> None:
    ended = {**end, "attempt": 1, "time": "2026-11-20T12:02:00Z"}
    stop = {**GUARD, "ended_by": "budget", "at": f"2026-11-20T{at}Z", **more}
    ran = attempts([EVENTS[0], ended])
    assert explained_attempts(ran, [stop]) == ran


def test_guards_cause_concerns_the_attempt_on_its_nodes_alone() -> None:
    """The next attempt runs on nodes that were started again."""
    ended = {**DRAINED, "attempt": 1, "time": "2026-11-20T12:02:00Z"}
    stop = {**GUARD, "ended_by": "time-limit", "at": "2026-11-20T12:01:58Z"}
    first, second = explained_attempts(attempts([EVENTS[0], ended, *EVENTS[5:]]), [stop])
    assert (first.ended_by, second.ended_by) == (EndedBy.TIME_LIMIT, None)


CHANGE = {"event": "node-changed", "action": "replace", "node": "n2", "ends_job": True,
          "began": "2026-11-20T12:01:50Z", "at": "2026-11-20T12:02:10Z"}  # fmt: skip
UNHEARD = {"event": "attempt-lost", "lost": 1, "last_seen": "2026-11-20T12:00:40Z", "time": "2026-11-20T12:04:00Z"}


@pytest.mark.parametrize("end", [{**DRAINED, "attempt": 1, "time": "2026-11-20T12:02:00Z"}, UNHEARD])
def test_attempt_whose_node_a_person_replaced_is_no_spot_interruption(end: dict[str, str]) -> None:
    (attempt,) = explained_attempts(attempts([EVENTS[0], end]), [CHANGE])
    assert (attempt.ended_by, attempt.by_pod_end, attempt.node_action) == (EndedBy.NODE_LOST, False, "replace n2")
    assert interrupted_attempts([attempt]) == (attempt,)


@pytest.mark.parametrize(
    "end, more",
    [
        # A spot notice, a completed command, a node on which no job ran or whose job goes on, and ends long after.
        ({**DRAINED, "notice": "spot"}, {}),
        (FINISHED, {}),
        (DRAINED, {"ends_job": False}),
        (DRAINED, {"began": "2026-11-20T11:40:00Z", "at": "2026-11-20T11:41:00Z"}),
        (DRAINED, {"began": "2026-11-20T12:02:30Z"}),
    ],
)
def test_end_that_an_action_on_a_node_did_not_cause_stays(end: dict[str, str], more: dict[str, object]) -> None:
    ran = attempts([EVENTS[0], {**end, "attempt": 1, "time": "2026-11-20T12:02:00Z"}])
    assert explained_attempts(ran, [{**CHANGE, **more}]) == ran


def test_cancelled_attempt_of_job_that_waits_again_has_lost_its_node() -> None:
    ran = attempts([EVENTS[0], {**CANCELLED, "attempt": 1, "time": "2026-11-20T12:02:00Z"}])
    waits = JobFacts(state=JobState.PENDING, word="PENDING", reason="BeginTime", restarts=1, nodes=(), attempt=None)
    assert [attempt.ended_by for attempt in close_last(ran, waits)] == [EndedBy.NODE_LOST]
    over = JobFacts(state=JobState.CANCELLED, word="CANCELLED", reason="", restarts=1, nodes=(), attempt=None)
    assert close_last(ran, over) == ran
