from datetime import UTC, datetime, timedelta

import pytest

from launcher.agent import ending
from launcher.agent.errors import AgentError, JobSpecError, LostNodeError, StoreError
from launcher.agent.node.notice import SOURCES, Notice, parse_notice
from launcher.agent.supervision import CommandEnd


def outcome(returncode=0, notice=None, hung=""):
    return CommandEnd(returncode=returncode, notice=notice, hung=hung, node_goes_at=None, newest_step=None)


def notice(source, **more):
    return Notice(source=source, detail="x", **more)


@pytest.mark.parametrize(
    "expected,event,code,ended_by",
    [
        (outcome(), "completed", 0, "completed"),
        (outcome(3), "failed", 3, "failure"),
        (outcome(75), "failed", 1, "failure"),
        (outcome(-9), "failed", 137, "failure"),
        (outcome(0, hung="no new step"), "failed", 124, "failure"),
        (outcome(85, notice("spot")), "interrupted", 75, "spot-interruption"),
        (outcome(0, notice("capacity-end")), "interrupted", 75, "time-limit"),
        (outcome(85, notice("signal")), "interrupted", 75, "time-limit"),
        (outcome(0, notice("cancel")), "cancelled", 143, "cancel"),
        (outcome(85, notice("budget")), "stopped", 79, "budget"),
        (outcome(-15, notice("failure", code=3, node="vn1")), "failed", 3, "failure"),
        (outcome(-15, notice("taken-over")), "failed", 74, "failure"),
        (outcome(3, notice("spot"), hung="no new step"), "failed", 124, "failure"),
    ],
)
def test_outcome_of_a_command_sets_event_exit_code_and_cause(expected, event, code, ended_by):
    got = ending.command_ending(expected)
    assert (got.event, got.exit_code, got.ended_by) == (event, code, ended_by)


@pytest.mark.parametrize(
    "error,event,code",
    [
        (AgentError("x"), "failed", 70),
        (JobSpecError(["x"]), "failed", 78),
        (StoreError("x"), "failed", 74),
        (LostNodeError("x"), "interrupted", 75),
    ],
)
def test_error_of_the_agent_sets_event_and_exit_code(error, event, code):
    got = ending.from_error(error)
    assert (got.event, got.exit_code, got.reason) == (event, code, "x")


def test_every_ending_notice_source_has_a_cause_word():
    assert {source for source in SOURCES if notice(source).ends} == set(ending.ENDED_BY)


def test_announced_end_names_the_node_and_the_source():
    end = ending.from_notice(notice("spot", node="p5-3"))
    assert (end.reason, end.notice) == ("x (p5-3)", "spot")
    assert ending.from_notice(notice("pod-end")).notice == "pod-end"


def test_notice_sent_to_another_node_keeps_source_and_time_left():
    now = datetime(2026, 11, 20, 14, 0, tzinfo=UTC)
    got = parse_notice(notice("spot", at="2026-11-20T14:01:00Z", left_s=120.0, node="p5-3").to_json(), now=now)
    assert (got.source, got.at, got.left_s, got.node) == ("spot", "2026-11-20T14:01:00Z", 60.0, "p5-3")


@pytest.mark.parametrize("ahead", [timedelta(hours=3), timedelta(minutes=-3), timedelta(days=-400)])
def test_notice_with_a_wrong_clock_keeps_the_time_left(ahead):
    sent = notice("spot", at="2026-11-20T14:01:00Z", left_s=50.0)
    got = parse_notice(sent.to_json(), now=datetime(2026, 11, 20, 14, 0, 10, tzinfo=UTC) + ahead)
    assert got.left_s == 50.0
