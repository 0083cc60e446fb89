"""Warnings of a node that a job will exceed its budget or its quote: each is sent once, after a delay."""

import json

import pytest

from launcher.agent.events import EventLog
from launcher.agent.forecast import at_types
from launcher.agent.node.forecast_watch import HOLDS_S, watch

QUOTED = {"usd_per_hour": 36.0, "other_usd": 10.0, "usd_low": 60.0, "usd_high": 100.0, "budget_usd": 90.0}


@pytest.fixture
def events(tmp_path):
    return tmp_path / "events.jsonl"


def begin_run(events, attempt=1, quoted=QUOTED):
    log = EventLog(events, run="r", attempt=attempt, node="n")
    log.append("attempt-started")
    return watch(quoted, events, log, attempt=attempt, now=0.0)


def train(forecast_watch, *, step_s, steps=100, first=1, begin_s=0.0):
    """A line a step, as it comes; the last moment."""
    now = begin_s
    for step in range(first, steps):
        now += step_s
        forecast_watch.lines([{"step": step, "steps": steps, "seconds": now - begin_s}], now)
    return now


def forecast_events(events):
    lines = [json.loads(line) for line in events.read_text().splitlines()]
    return [(line["kind"], line.get("reason")) for line in lines if line["event"] == "forecast"]


def test_forecast_within_range_and_budget_sends_no_event(events):
    # 100 steps of 72 s: two hours, $72 and $10 beside.
    train(begin_run(events), step_s=72)
    assert forecast_events(events) == []


def test_forecast_above_quote_and_budget_sends_one_event_each_after_the_hold_time(events):
    # 100 steps of 108 s: three hours, $108 and $10 beside.
    forecast_watch = begin_run(events)
    forecast_watch.lines([{"step": step, "steps": 100, "seconds": step * 108.0} for step in (1, 2, 3)], 324.0)
    forecast_watch.lines([], 324.0 + HOLDS_S - 1)
    assert forecast_events(events) == []
    forecast_watch.lines([], 324.0 + HOLDS_S)
    (budget, message), (quote, _) = forecast_events(events)
    assert (budget, quote) == ("budget", "quote")
    assert message.startswith("the forecast, $12")
    assert message.endswith(", is above the $90.00 of budget.max_usd")
    train(forecast_watch, step_s=108, first=4, begin_s=324.0 + HOLDS_S)
    assert len(forecast_events(events)) == 2


def test_forecast_above_the_limit_of_the_launch_names_its_option(events):
    limited = {key: usd for key, usd in QUOTED.items() if key != "budget_usd"} | {"launch_usd": 90.0}
    train(begin_run(events, quoted=limited), step_s=108)
    assert dict(forecast_events(events))["budget"].endswith(", is above the $90.00 of --max-usd")


def test_slow_first_steps_are_forgiven(events):
    forecast_watch = begin_run(events)
    now = train(forecast_watch, step_s=1000, steps=4)
    for step in range(4, 40):
        now += 5
        forecast_watch.lines([{"step": step, "steps": 1000, "seconds": now}], now)
    assert "budget" not in [kind for kind, _ in forecast_events(events)]


def test_later_attempt_counts_earlier_hours_and_repeats_no_event(events):
    first = [("attempt-started", "00:00"), ("forecast", "00:30"), ("interrupted", "02:00")]
    lines = [{"event": kind, "attempt": 1, "time": f"2026-11-20T{at}:00Z", "kind": "quote"} for kind, at in first]
    events.write_text("".join(json.dumps(line) + "\n" for line in lines))
    # Two hours before it, and half an hour that is left: $90 and $10 beside.
    train(begin_run(events, attempt=2), step_s=18)
    assert [kind for kind, _ in forecast_events(events)] == ["quote", "budget"]


@pytest.mark.parametrize("quoted", [None, {}, {"usd_low": 1.0, "usd_high": 2.0}])
def test_quote_without_a_rate_sends_no_forecast_event(events, quoted):
    forecast_watch = begin_run(events, quoted=quoted)
    if forecast_watch is not None:
        train(forecast_watch, step_s=72)
    assert forecast_events(events) == []


def test_missing_events_of_earlier_attempts_disable_the_forecast(events):
    assert begin_run(events, attempt=2) is None


def test_without_a_number_of_steps_the_end_is_not_known(events):
    forecast_watch = begin_run(events)
    for step in range(1, 100):
        forecast_watch.lines([{"step": step, "seconds": step * 500.0}], step * 500.0)
    assert forecast_events(events) == []


def test_seconds_of_single_steps_give_no_forecast(events):
    forecast_watch = begin_run(events)
    seconds = [0.20, 0.21, 0.22, 0.20, 0.21, 0.20, 0.19, 0.21, 0.20, 0.21, 0.22, 0.23]
    for step, each in enumerate(seconds, start=1):
        forecast_watch.lines([{"step": step, "steps": 10**9, "seconds": each}], step * HOLDS_S)
    assert forecast_watch.remaining() is None
    assert forecast_events(events) == []


def test_an_attempt_that_resumes_behind_the_last_line_is_forecast(events):
    forecast_watch = begin_run(events)
    train(forecast_watch, step_s=72, steps=5)
    train(forecast_watch, step_s=36, first=7, steps=11)
    assert forecast_watch.remaining().step_s == 36


def test_each_attempt_counts_at_the_rate_of_its_own_instance_types(events):
    """An hour on g6 at half the quoted $36, then two hours on g5: $18, $72 and $10 beside; at one rate $118 or $64."""
    typed = {**QUOTED, "usd_per_hour.g5.xlarge": 36.0, "usd_per_hour.g6.xlarge": 18.0}
    day = "2026-11-20T1{}:00:00.000Z"
    earlier = [
        {"time": day.format(2), "event": "attempt-started", "attempt": 1, "instance_types": ["g6.xlarge"]},
        {"time": day.format(3), "event": "interrupted", "attempt": 1},
    ]
    events.write_text("".join(json.dumps(event) + "\n" for event in earlier))
    train(begin_run(events, attempt=2, quoted=at_types(typed, ["g5.xlarge"])), step_s=72)
    assert forecast_events(events) == [
        ("budget", "the forecast, $100.00, is above the $90.00 of budget.max_usd"),
    ]


def test_forecast_of_a_cheaper_type_stays_below_the_budget(events):
    typed = {**QUOTED, "usd_per_hour.g6.xlarge": 18.0, "usd_low": 0.0}
    train(begin_run(events, quoted=at_types(typed, ["g6.xlarge"])), step_s=108)
    assert forecast_events(events) == []
