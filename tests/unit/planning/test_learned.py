"""Boot and restart hours of own runs: they narrow the assumption; contradictions widen it and are named."""

from dataclasses import replace
from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.planning.learned import MeasuredHours, learned_boot, learned_hours, learned_restart, learned_tail
from launcher.planning.start_up import BOOT_H, BOOT_RANGE_H, RESTART_RANGE_H
from tests.unit.planning.measurements import measured

DAY = date(2026, 11, 20)


def measured_start(hours: float, run: str = "a/1", starts: int = 1) -> MeasuredHours:
    """A run's hours."""
    return MeasuredHours(run, hours, starts, DAY)


def test_learned_hours_without_runs_are_none():
    assert learned_hours(BOOT_RANGE_H, []) is None


@given(st.floats(0.02, 2.0), st.integers(0, 6))
def test_equal_runs_never_widen_learned_hours(hours, count):
    prior = BOOT_RANGE_H.high / BOOT_RANGE_H.low
    before = learned_hours(BOOT_RANGE_H, [measured_start(hours, f"a/{number}") for number in range(count)])
    after = learned_hours(BOOT_RANGE_H, [measured_start(hours, f"a/{number}") for number in range(count + 1)])
    assert after.high / after.low <= (before.high / before.low if before else prior) * (1 + 1e-9)
    assert not after.contradiction
    assert min(hours, BOOT_H) * (1 - 1e-9) <= after.mid <= max(hours, BOOT_H) * (1 + 1e-9)


def test_many_runs_outweigh_prior_hours():
    hours = learned_hours(BOOT_RANGE_H, [measured_start(0.5, f"a/{number}") for number in range(30)])
    assert hours.mid == pytest.approx(0.5, rel=0.02)
    assert hours.source == "measured, 30 runs, 2026-11-20"


def test_contradicting_run_widens_learned_hours_and_is_named():
    agreeing = [measured_start(0.1, f"a/{number}") for number in range(4)]
    before, after = (
        learned_hours(BOOT_RANGE_H, agreeing),
        learned_hours(BOOT_RANGE_H, [*agreeing, measured_start(1.5, "odd/1")]),
    )
    assert after.contradiction
    assert "odd/1" in after.contradiction
    assert after.high / after.low > 2 * before.high / before.low


def test_several_restarts_of_run_weigh_more_than_one():
    one, four = (learned_hours(RESTART_RANGE_H, [measured_start(0.1, starts=starts)]) for starts in (1, 4))
    assert four.mid < one.mid
    assert four.high / four.low < one.high / one.low


def test_unusable_start_measurements_are_ignored():
    warm, waited = measured(1.0, boot_s=20.0, run="a/1"), measured(1.0, boot_s=9000.0, run="a/2")
    sandbox = measured(1.0, boot_s=600.0, run="a/3", simulated=True)
    other = measured(1.0, boot_s=600.0, run="a/4", instance_type="p4d.24xlarge")
    assert learned_boot("p5.48xlarge", (warm, waited, sandbox, other)) is None
    counted = replace(warm, boot_s=1200.0, restart_s=300.0, restarts=2, measured_at=datetime(2026, 11, 21, tzinfo=UTC))
    assert learned_boot("p5.48xlarge", (counted, waited)).runs == ("a/1",)
    assert learned_boot("p5.48xlarge", (counted,)).mid > BOOT_H
    assert learned_restart("p5.48xlarge", (counted,)).as_of == date(2026, 11, 21)


def tail(minutes, assumed=5, **changes):
    """A run whose nodes stayed for so many minutes after its job, where so many were assumed."""
    hours = {"target": "parallelcluster", "idle_tail_assumed_h": assumed / 60, "idle_tail_h": minutes / 60}
    return measured(1.0, **{**hours, **changes})


def test_idle_tail_learned_only_from_same_target_and_assumption():
    known = [tail(8, run=f"a/{number}") for number in range(10)]
    tail_hours = learned_tail("parallelcluster", 5 / 60, known)
    assert tail_hours.mid * 60 == pytest.approx(8, rel=0.05)
    assert tail_hours.high / tail_hours.low < 2**2
    others = (tail(8, simulated=True), tail(8, target="eks"), tail(8, assumed=60), replace(tail(8), idle_tail_h=None))
    assert learned_tail("parallelcluster", 5 / 60, others) is None
    odd = learned_tail("parallelcluster", 5 / 60, [*known, tail(60, run="odd/1")])
    assert "odd/1" in odd.contradiction
    assert odd.high / odd.low > tail_hours.high / tail_hours.low


@given(st.floats(0.5, 600.0), st.integers(0, 6))
def test_equal_tails_never_widen_learned_tail(minutes, count):
    before, after = (
        learned_tail("parallelcluster", 5 / 60, [tail(minutes, run=f"a/{index}") for index in range(number)])
        for number in (count, count + 1)
    )
    assert after.high / after.low <= (before.high / before.low if before else 4.0) * (1 + 1e-9)
