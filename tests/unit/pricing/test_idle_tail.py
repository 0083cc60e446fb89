"""The cost of nodes after the job, on every target, as the templates define it."""

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from launcher.model.monitoring import GUARD_AFTER_SLURM_MINUTES, GUARD_EVERY_MINUTES
from launcher.pricing.idle_tail import NEVER_H
from tests.infra.guard_modules import guard_module
from tests.unit.pricing.conftest import price_over

P5 = {"target": {"instance_type": "p5.48xlarge", "nodes": 8, "region": "us-east-1"}}
JOB_H = price_over().quote(1).hours.mid
"""Wall hours of a job of 10 hours of progress."""
ONE_HOUR = {**P5, "workload": {"train": {"hours": 1}}}


def tail(quoted):
    return next((component for component in quoted.components if component.name == "idle tail"), None)


def test_one_hour_on_eight_nodes_with_an_idle_hour_costs_two_hours(priced):
    quoted = priced({**ONE_HOUR, "guardrails": {"idle_minutes": 60}}).quote(1)
    line = tail(quoted)
    assert (line.group, line.quantity) == ("compute", 8)
    assert line.usd == 8 * quoted.price.usd
    assert quoted.billed_hours == pytest.approx(quoted.hours.mid + quoted.hours_to_first_step + 1)
    assert quoted.usd.mid > 2 * 8 * quoted.price.usd
    assert quoted.usd.low < quoted.usd.mid


@pytest.mark.parametrize(
    "plan, minutes",
    [
        ({}, 5),
        ({"target": {"cluster": "shared"}}, 60),
        ({"guardrails": {"idle_minutes": 15}}, 15),
        ({"guardrails": {"idle_minutes": 0}}, NEVER_H * 60),
        ({"guardrails": {"idle_minutes": 0, "ttl_h": 12}}, (12 - JOB_H - 0.15) * 60),
        ({"guardrails": {"idle_minutes": 60, "ttl_h": 10.5}}, (10.5 - JOB_H - 0.15) * 60),
    ],
)
def test_idle_tail_lasts_as_long_as_the_idle_limit_and_the_ttl_allow(priced, plan, minutes):
    assert tail(priced(plan).quote(1)).quantity * 60 == pytest.approx(minutes)


def test_expired_time_to_live_leaves_no_idle_tail(priced):
    assert tail(priced({"guardrails": {"ttl_h": 10}}).quote(1)) is None


def test_capacity_block_has_no_idle_tail(priced):
    assert tail(priced({"purchase": {"option": "capacity-block"}}).quote(1)) is None


def test_hyperpods_workers_wait_for_the_guard_and_start_with_health_checks(priced):
    quoted = priced({"target": {"kind": "hyperpod-slurm"}, "guardrails": {"idle_minutes": 30}}).quote(1)
    assert tail(quoted).quantity * 60 == pytest.approx(30 + 15 + 2.5)
    start = next(component for component in quoted.components if component.name == "start-up of the nodes")
    # 1.15 at its median; the median of job and start-up together is 4 % above the sum of theirs.
    assert 1.15 <= start.quantity == pytest.approx(1.15, rel=0.05)
    longest = Decimal(repr(quoted.hours.high - quoted.hours.mid)) * quoted.price.usd
    assert longest < quoted.usd.high - quoted.usd.mid < longest + quoted.price.usd


def test_priced_guard_times_equal_the_times_in_the_guard():
    with guard_module("guard") as guard:
        assert guard.AFTER_SLURM.total_seconds() == GUARD_AFTER_SLURM_MINUTES * 60
        assert guard.EVERY.total_seconds() == GUARD_EVERY_MINUTES * 60


@settings(max_examples=40)
@given(
    minutes=st.floats(0.01, 2_000),
    more=st.floats(0, 2_000),
    option=st.sampled_from(["on-demand", "spot", "savings-plan", "reserved"]),
    kind=st.sampled_from(["parallelcluster", "hyperpod-slurm"]),
    owned=st.booleans(),
)
def test_a_longer_idle_time_never_makes_the_high_estimate_lower(minutes, more, option, kind, owned):
    if kind == "hyperpod-slurm" and option != "on-demand":
        return
    plan = {"target": {"kind": kind}, "purchase": {"option": option, "owned": owned}}
    short, long = (
        price_over({**plan, "guardrails": {"idle_minutes": idle_minutes}}) for idle_minutes in (minutes, minutes + more)
    )
    low, high = short.quote(1).usd, long.quote(1).usd
    if low is not None and high is not None:
        assert high.high >= low.high
        assert high.mid >= low.mid
