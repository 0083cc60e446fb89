"""Interruptions of own runs: counts narrow the assumed rate, contradictory runs widen it."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.pricing.hazard import assumed_rates
from launcher.pricing.seen_interruptions import Count, interruption_counts, learned_rate
from tests.unit.planning.measurements import measured

PRIOR = assumed_rates(None)


def count(interruptions: int, node_hours: float, run: str = "a/1", weight: float = 1.0) -> Count:
    """A run's count."""
    return Count(run, interruptions, node_hours, weight, date(2026, 11, 20))


def ratio(rate) -> float:
    """How wide a range is."""
    return rate.high / rate.low


def test_learned_rate_without_runs_is_none():
    assert learned_rate(*PRIOR, ()) is None


def test_almost_no_hours_leave_the_learned_rate_near_the_prior():
    rate = learned_rate(*PRIOR, (count(0, 1e-6),))
    assert (rate.low, rate.mid, rate.high) == pytest.approx(PRIOR, rel=0.2)


@given(st.integers(10, 60), st.floats(20.0, 50_000.0), st.integers(1, 5))
def test_more_runs_at_one_rate_narrow_the_range(interruptions, hours, runs):
    same = [count(interruptions, hours, f"a/{number}") for number in range(runs + 1)]
    fewer, more = learned_rate(*PRIOR, tuple(same[:-1])), learned_rate(*PRIOR, tuple(same))
    assert ratio(more) <= ratio(fewer) * 1.02
    assert not more.contradiction
    assert more.low < more.mid < more.high


@given(st.floats(1.0, 50_000.0), st.floats(1.0, 50_000.0))
def test_hours_without_an_interruption_never_raise_the_rate(hours, more):
    before = learned_rate(*PRIOR, (count(0, hours),))
    after = learned_rate(*PRIOR, (count(0, hours), count(0, more, "b/1")))
    assert after.mid <= before.mid
    assert after.high <= before.high
    assert ratio(after) <= PRIOR[2] / PRIOR[0] * 1.2


def test_many_observed_hours_outweigh_the_prior():
    assert learned_rate(*PRIOR, (count(100, 1000.0),)).mid == pytest.approx(0.1, rel=0.05)
    quiet = learned_rate(*PRIOR, (count(0, 10_000.0),))
    assert quiet.mid < 1e-3
    assert ratio(quiet) < PRIOR[2] / PRIOR[0]


def test_a_contradiction_widens_and_is_named():
    calm = tuple(count(1, 200.0, f"a/{number}") for number in range(4))
    before, after = learned_rate(*PRIOR, calm), learned_rate(*PRIOR, (*calm, count(30, 20.0, "storm/1")))
    assert not before.contradiction
    assert "storm/1: 30 in 20 node-hours" in after.contradiction
    assert ratio(after) > ratio(before)


def test_a_run_elsewhere_counts_by_half_and_others_not_at_all():
    spot = {"purchase_option": "spot", "region": "us-east-2", "running_h": 100.0, "interruptions": 4}
    here, there = measured(1.0, **spot), measured(1.0, **(spot | {"region": "eu-west-1"}))
    on_demand = measured(1.0, **(spot | {"purchase_option": "on-demand"}))
    old, sandbox = measured(1.0), measured(1.0, **spot, simulated=True)
    weighted_counts = interruption_counts("p5.48xlarge", "us-east-2", (here, there, on_demand, old, sandbox), 0.08)
    assert [weighted_count.weight for weighted_count in weighted_counts] == [1.0, 0.5]
    assert weighted_counts[0].node_hours == pytest.approx(100.0 * (0.92 + 0.08 * 2))
    assert interruption_counts("p4d.24xlarge", "us-east-2", (here,), 0.08) == ()
