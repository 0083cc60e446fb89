"""Findings on budget.stop_at_usd before a launch."""

from decimal import Decimal

import pytest

from launcher.model.budget_stop import reserve_minutes, reserve_usd, settle_minutes, stops_at
from launcher.model.enums import PurchaseOption
from launcher.model.money import UsdRange
from launcher.pricing.stop_findings import stop_findings
from tests.unit.pricing.conftest import price_over

USD = UsdRange(low=Decimal(100), mid=Decimal(150), high=Decimal(200))


def quote_of(option="on-demand", stop=500, budget=None, **purchase):
    """The quote of one p5.48xlarge at $60 an hour."""
    changes = {
        "target": {"kind": "parallelcluster", "region": "us-east-2", "instance_type": "p5.48xlarge", "nodes": 1},
        "purchase": {"option": option, "price_overrides": {f"p5.48xlarge/{option}": "60"}, **purchase},
        "budget": {"stop_at_usd": stop, **(budget or {})},
    }
    return price_over(changes).quote(1)


def plan_of(**parts):
    return quote_of(**parts).plan


def codes_and_levels(usd_per_hour=Decimal(60), **parts):
    return [(finding.code, finding.level.value) for finding in stop_findings(plan_of(**parts), USD, usd_per_hour)]


def test_sufficient_stop_sum_has_no_finding():
    assert codes_and_levels() == []


def test_reserve_is_one_period_the_grace_time_the_tail_and_the_end():
    request = plan_of().request
    assert (settle_minutes(request), reserve_minutes(request)) == (5, 15)
    assert reserve_usd(request, Decimal(60)) == Decimal("15.00")


@pytest.mark.parametrize("stop", [0, 15])
def test_stop_sum_within_the_reserve_is_an_error(stop):
    assert codes_and_levels(stop=stop) == [("stop-below-reserve", "error")]


def test_stop_sum_below_the_estimate_is_a_warning():
    assert codes_and_levels(stop=114) == [("stop-below-estimate", "warning")]
    assert codes_and_levels(stop=115) == [("stop-within-estimate", "warning")]


def test_stop_sum_above_the_budget_is_a_warning():
    assert codes_and_levels(budget={"max_usd": 400}) == [("stop-above-budget", "warning")]


def test_owned_commitment_is_exempt_from_the_stop_with_a_warning():
    plan = plan_of(option="savings-plan", owned=True, plan_kind="compute", term_years=1)
    assert stops_at(plan.request, PurchaseOption.SAVINGS_PLAN) is None
    ((code, level),) = [(finding.code, finding.level.value) for finding in stop_findings(plan, USD, Decimal(60))]
    assert (code, level) == ("stop-exempt", "warning")


def test_quote_states_the_stop_sum_and_the_gate_refuses_an_impossible_one():
    quoted = quote_of(stop=10)
    assert (quoted.gate.allows_launch, quoted.gate.exit_code) == (False, 5)
    assert {policy.name: policy.value for policy in quoted.policies}["budget stop"] == "$10, saved before"
    assert {"usd_per_hour", "other_usd_per_hour"} <= quoted.amounts(None).keys()
    assert quoted.other_usd_per_hour > 0
