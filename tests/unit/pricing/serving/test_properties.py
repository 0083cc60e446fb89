"""What holds of every serving plan, whatever is asked for."""

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from launcher import plan_file
from launcher.catalog.load import load
from launcher.model.errors import ImpossibleError
from launcher.workflow.price import PriceOptions
from launcher.workflow.serving import price_serving

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
CATALOG = load()
SOME = ["inf2.24xlarge", "inf2.48xlarge", "g5.12xlarge", "g6e.xlarge", "p5.4xlarge"]
CENT = Decimal("0.01")
"""What rounding may add."""
DEPLOYMENT = "old and new version together"
few = settings(deadline=None, max_examples=20)


def months(**serve):
    """The month of every type of SOME and of Bedrock; types that drop out are missing."""
    return {each.place.instance_type: each.usd for each in drafts(**serve) if each.usd is not None}


def between_deployments(**serve):
    """The same without what a deployment adds."""
    return {
        each.place.instance_type: sum(line.usd for line in each.components if line.usd and line.name != DEPLOYMENT)
        for each in drafts(**serve)
        if each.usd is not None
    }


def drafts(**serve):
    """Every candidate; none where the plan is impossible."""
    plan = {
        "slipway": 1,
        "name": "p",
        "workload": {"serve": {"model": "llama-3.1-8b", "input_tokens": 1500, "output_tokens": 250, **serve}},
        "target": {"region": "us-east-1", "instance_type": SOME},
    }
    request = plan_file.loads(yaml.safe_dump(plan))
    try:
        return price_serving(Path("p.yaml"), request, CATALOG, NOW, PriceOptions()).drafts
    except ImpossibleError:
        return []


@few
@given(rate=st.floats(0, 40), more=st.floats(0, 40), least=st.integers(0, 2))
def test_more_traffic_never_costs_less(rate, more, least):
    little = months(requests_per_s=rate, min_instances=least)
    much = months(requests_per_s=rate + more, min_instances=least)
    assert set(little) == set(much)
    assert all(much[name] >= little[name] - CENT for name in little)


@few
@given(tight=st.floats(8, 300), more=st.floats(0, 300), rate=st.floats(0.1, 40))
def test_a_tighter_latency_never_costs_less_but_for_deployments_that_can_roll(tight, more, rate):
    strict = between_deployments(requests_per_s=rate, max_tpot_ms=tight)
    loose = between_deployments(requests_per_s=rate, max_tpot_ms=tight + more)
    assert set(strict) <= set(loose) or not loose
    assert all(strict[name] >= loose[name] - CENT for name in strict if name in loose)


@few
@given(rate=st.floats(0.1, 20), zones=st.integers(1, 4))
def test_more_zones_never_cost_less_but_for_deployments_that_can_roll(rate, zones):
    one, many = between_deployments(requests_per_s=rate), between_deployments(requests_per_s=rate, zones=zones)
    assert all(many[name] >= one[name] - CENT for name in one)


@few
@given(hours=st.lists(st.floats(0, 20), min_size=24, max_size=24))
def test_a_day_costs_no_more_than_its_peak_all_day(hours):
    shaped, flat = months(hourly_requests_per_s=hours), months(requests_per_s=max(hours))
    assert all(shaped[name] <= flat[name] + CENT for name in shaped)
