"""Slow nodes beside the meter: the events of the agent with the dollars of this moment."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from launcher.answers.straggler import straggler_lines
from launcher.model.meter import Meter, Terms
from launcher.model.money import Range, UsdRange
from launcher.model.run_cost import RunRates
from launcher.records import run_folder
from launcher.workflow.run.status import ended_state, with_job_data, with_meter
from launcher.workflow.run.stragglers import stragglers
from tests.unit.cli.reports import QUOTE

NOW = datetime(2026, 11, 20, 14, tzinfo=UTC)
STARTED = {"event": "attempt-started", "attempt": 1, "time": "2026-11-20T12:00:00Z", "node": "n0"}
SAVED = {"event": "checkpoint-uploaded", "attempt": 1, "step": 40, "time": "2026-11-20T13:45:00Z"}
SLOW = {
    "event": "straggler",
    "attempt": 1,
    "time": "2026-11-20T13:50:00Z",
    "slow_node": "n2",
    "part": 2,
    "basis": "work",
    "percent": 25,
    "share": 0.125,
    "reason": "n2 is 25 % slower than the other nodes for 20 minutes: 1.25 s of its own work a step, the others 1 s"
    "; until the end this costs 3.0 h and $240.00",
}
OVER = {"event": "straggler-over", "attempt": 1, "time": "2026-11-20T13:55:00Z", "slow_node": "n2"}


TOTAL = UsdRange(low=Decimal(900), mid=Decimal(1000), high=Decimal(1200))


def reading(*, left_h=8.0, usd=TOTAL):
    quoted = Terms(
        usd=usd,
        usd_per_hour=Decimal(80),
        hours=Range(low=9, mid=10, high=12),
        tokens_per_s=None,
        mfu=None,
        interruptions=None,
        interval_s=None,
        budget_usd=None,
        rates=RunRates(),
    )
    left = None if left_h is None else Range(low=left_h, mid=left_h, high=left_h)
    return Meter(
        step=10, steps=100, tokens=None, tokens_per_s=None, mfu=None, left_h=left, hours=2.0, usd=None,
        forecast=None, interruptions=0, next_checkpoint_s=None, quoted=quoted, simulated=False,
    )  # fmt: skip


def test_straggler_costs_a_share_of_the_remaining_hours_and_replacement_costs_the_restart():
    (slow,) = stragglers([STARTED, SAVED, SLOW], reading(), NOW)
    assert (slow.node, slow.hours_until_end, slow.usd_until_end) == ("n2", 1.0, Decimal("80.00"))
    # A quarter of an hour to restart, and as long since the newest checkpoint.
    assert (slow.replace_hours, slow.replace_usd) == (pytest.approx(0.5), Decimal("40.00"))
    assert slow.reason.endswith("the others 1 s")


def test_straggler_costs_the_rate_of_the_types_of_the_attempt():
    """EC2 chose a type at half the quoted rate for one of two nodes."""
    now = reading()
    rates = RunRates(type_usd_per_hour=(("g5.xlarge", Decimal(80)), ("g6.xlarge", Decimal(40))))
    now = replace(now, quoted=replace(now.quoted, rates=rates))
    (slow,) = stragglers([STARTED | {"instance_types": ["g5.xlarge", "g6.xlarge"]}, SAVED, SLOW], now, NOW)
    assert (slow.usd_until_end, slow.replace_usd) == (Decimal("60.00"), Decimal("30.00"))


@pytest.mark.parametrize("event, words", [({"at_most": True}, "costs at most 60 min"), ({}, "costs 60 min")])
def test_hours_until_the_end_are_a_bound_where_the_agent_knew_no_time_of_a_step(event, words):
    slow = stragglers([STARTED, SAVED, {**SLOW, **event}], reading(), NOW)
    assert words in " ".join(straggler_lines("job", slow, 100, replaceable=True))


@pytest.mark.parametrize(
    "later",
    [
        [OVER],
        [{"event": "interrupted", "attempt": 1, "time": "2026-11-20T13:58:00Z", "ended_by": "spot-interruption"}],
        [STARTED | {"attempt": 2, "time": "2026-11-20T13:58:00Z"}],
    ],
)
def test_recovered_straggler_or_straggler_of_an_ended_attempt_is_not_shown(later):
    assert stragglers([STARTED, SLOW, *later], reading(), NOW) == ()


@pytest.mark.parametrize("words", ["until the end this costs 3.0 h and $240.00", "this costs at most $10.00 an hour"])
def test_straggler_of_a_job_without_a_known_end_shows_dollars_an_hour(words):
    event = SLOW | {"reason": f"{str(SLOW['reason']).partition('; ')[0]}; {words}"}
    (slow,) = stragglers([STARTED, event], reading(left_h=None), NOW)
    assert (slow.usd_until_end, slow.usd_per_hour, slow.replace_usd) == (None, Decimal("10.00"), Decimal("180.00"))
    text = " ".join(" ".join(straggler_lines("job", [slow], 80, replaceable=True)).split())
    assert "until the end" not in text
    assert text.count("this costs at most $10.00 an hour; the job's end is not known without step") == 1
    assert text.count("this costs") == 1


def test_job_without_a_total_shows_hours_without_dollars():
    (slow,) = stragglers([STARTED, SLOW], reading(usd=None), NOW)
    assert "$" not in "\n".join(straggler_lines("job", [slow], 80, replaceable=True))


@pytest.mark.parametrize("width", [80, 120])
def test_straggler_lines_fit_the_width_and_name_the_command(width):
    lines = straggler_lines("job", stragglers([STARTED, SAVED, SLOW], reading(), NOW), width, replaceable=True)
    assert max(map(len, lines)) <= width
    text = " ".join(" ".join(lines).split())
    assert "until the end this costs 60 min and $80.00" in text
    assert "replacing it costs 30 min and $40.00: a restart" in text
    assert lines[-1] == "    slipway nodes job replace n2 --dry-run"


def test_managed_job_offers_no_replacement():
    lines = straggler_lines("job", stragglers([STARTED, SLOW], reading(), NOW), 80, replaceable=False)
    assert not any("slipway nodes" in line for line in lines)


def test_chips_bound_the_cost():
    lines = straggler_lines(
        "job", stragglers([STARTED, SLOW | {"basis": "chips"}], reading(), NOW), 80, replaceable=True
    )
    assert any("this costs at most" in line for line in lines)


def test_state_of_a_running_job_lists_stragglers(tmp_path):
    folder = run_folder.create("job", NOW - timedelta(hours=2), tmp_path)
    folder.write_json("quote.json", QUOTE)
    (folder.path / "job").mkdir()
    (folder.path / "job" / "events.jsonl").write_text("".join(json.dumps(line) + "\n" for line in (STARTED, SLOW)))
    lines = [{"step": step, "steps": 1000, "seconds": step * 36.0} for step in range(1, 101)]
    (folder.path / "job" / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    state = with_meter(with_job_data(ended_state("job", folder), folder), folder, NOW)
    assert [(slow.node, slow.percent) for slow in state.stragglers] == [("n2", 25)]
    # 900 steps of 36 s are nine hours.
    assert state.stragglers[0].hours_until_end == pytest.approx(9 * 0.125)
