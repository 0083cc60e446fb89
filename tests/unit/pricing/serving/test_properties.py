"""Properties of every serving plan."""

from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from launcher.catalog.load import load
from launcher.model.errors import ImpossibleError
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.serving import price_serving
from tests.plans import NOW, request_of

CATALOG = load()
SOME = ["inf2.8xlarge", "inf2.24xlarge", "inf2.48xlarge", "trn1.32xlarge", "g5.12xlarge", "g6e.xlarge", "p5.4xlarge"]
CENT = Decimal("0.01")
"""What rounding may add."""
DEPLOYMENT = "old and new version together"
few = settings(max_examples=20)
shapes = st.fixed_dictionaries(
    {
        "requests_per_s": st.floats(0, 40),
        "min_instances": st.integers(0, 3),
        "zones": st.integers(1, 2),
        "asynchronous": st.booleans(),
        "streaming": st.booleans(),
        "output_tokens": st.sampled_from((100, 250, 2000)),
    }
)
places = st.sampled_from(
    (
        {"kind": "sagemaker-endpoint", "region": "us-east-1"},
        {"kind": "eks", "region": "us-east-1"},
        {"kind": "sagemaker-endpoint", "region": ["us-east-1", "us-west-2", "eu-west-3"]},
    )
)


def months(target=None, **serve):
    """The month of every way to buy every type of SOME and of Bedrock that nothing is against."""
    return {
        (candidate.place.instance_type, candidate.place.option, candidate.place.term_years): candidate.usd
        for candidate in candidates(target, **serve)
        if candidate.usd is not None and not candidate.refusals
    }


def between_deployments(**serve):
    """The same on demand, without what a deployment adds."""
    return {
        candidate.place.instance_type: sum(
            line.usd for line in candidate.components if line.usd and line.name != DEPLOYMENT
        )
        for candidate in candidates(**serve)
        if candidate.usd is not None
    }


def candidates(target=None, **serve):
    """Every candidate; none where the plan is impossible."""
    plan = {
        "slipway": 1,
        "name": "p",
        "workload": {"serve": {"model": "llama-3.1-8b", "input_tokens": 1500, "output_tokens": 250, **serve}},
        "target": {"region": "us-east-1", "instance_type": SOME, **(target or {})},
    }
    request = request_of(plan)
    try:
        return price_serving(Path("p.yaml"), request, CATALOG, NOW, PriceOptions()).candidates
    except ImpossibleError:
        return []


@pytest.mark.long
@few
@given(shape=shapes, more=st.floats(0, 40), target=places)
def test_more_traffic_never_costs_less(shape, more, target):
    little = months(target, **shape)
    much = months(target, **{**shape, "requests_per_s": shape["requests_per_s"] + more})
    assert set(little) == set(much)
    assert all(much[name] >= little[name] - CENT for name in little)


@pytest.mark.long
@few
@given(
    shape=shapes,
    limit=st.sampled_from(("max_tpot_ms", "max_ttft_ms")),
    tight=st.floats(8, 300),
    more=st.floats(0, 300),
    target=places,
)
def test_a_tighter_latency_never_gives_more_tokens_per_dollar(shape, limit, tight, more, target):
    """With the same traffic more tokens per dollar are fewer dollars, those of deployments included."""
    scale = 1 if limit == "max_tpot_ms" else 20
    strict = months(target, **shape, **{limit: tight * scale})
    loose = months(target, **shape, **{limit: (tight + more) * scale})
    without = months(target, **shape)
    for less, most in ((strict, loose), (loose, without)):
        # A limit can bring an answer that is not streamed within its 60 seconds: then what was refused is possible.
        assert set(less) <= set(most) or not shape["streaming"]
        assert all(less[name] >= most[name] - CENT for name in less if name in most)


@pytest.mark.slow
@few
@given(tight=st.floats(8, 300), more=st.floats(0, 300), rate=st.floats(0.1, 20))
def test_tighter_latency_never_costs_less_in_any_region_or_term(tight, more, rate):
    def everywhere(limit):
        plan = {
            "slipway": 1,
            "name": "p",
            "workload": {"serve": {"model": "llama-3.1-8b", "requests_per_s": rate, "max_tpot_ms": limit}},
            "target": {"instance_type": SOME[:3], "kind": "eks"},
        }
        request = request_of(plan)
        try:
            priced_candidates = price_serving(
                Path("p.yaml"), request, CATALOG, NOW, PriceOptions(everything=True)
            ).candidates
        except ImpossibleError:
            return {}
        return {
            replace(candidate.place, nodes=1): candidate.usd
            for candidate in priced_candidates
            if candidate.usd is not None and not candidate.refusals
        }

    strict, loose = everywhere(tight), everywhere(tight + more)
    assert set(strict) <= set(loose)
    assert all(strict[place] >= loose[place] - CENT for place in strict)


@few
@given(rate=st.floats(0.1, 20), zones=st.integers(1, 4))
def test_more_zones_never_cost_less_between_rolling_deployments(rate, zones):
    one, many = between_deployments(requests_per_s=rate), between_deployments(requests_per_s=rate, zones=zones)
    assert all(many[name] >= one[name] - CENT for name in one)


@few
@given(hours=st.lists(st.floats(0, 20), min_size=24, max_size=24))
def test_daily_traffic_costs_at_most_the_peak_all_day(hours):
    shaped, flat = months(hourly_requests_per_s=hours), months(requests_per_s=max(hours))
    assert all(shaped[name] <= flat[name] + CENT for name in shaped)
