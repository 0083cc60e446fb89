"""Layout and place of a candidate: the cheapest month that can be deployed."""

from decimal import Decimal

import pytest

from launcher.catalog.bedrock import BedrockCatalog
from launcher.catalog.load import load
from launcher.catalog.serving import load_serving
from launcher.model.document import plan_at
from launcher.planning.endpoint_pin import pinned_serving
from launcher.workflow.quote.options import PriceOptions
from tests.unit.pricing.serving.conftest import request as requested

INF2 = {"instance_type": "inf2.48xlarge"}
CENT = Decimal("0.01")
DEPLOYMENT = "old and new version together"


def of(priced, serve=None, **sections):
    """The candidate of the plan's type on demand."""
    sections.setdefault("purchase", {"option": "on-demand"})
    (candidate,) = priced(serve, **sections).candidates
    return candidate


def test_the_layout_is_the_cheapest_and_not_the_fastest(serving_priced):
    """Two layouts that need one instance: several copies are replaced in steps, one copy is doubled."""
    open_ = of(serving_priced, {"input_tokens": 1400, "min_instances": 4, "requests_per_s": 1}, target=INF2)
    whole = of(
        serving_priced,
        {"input_tokens": 1400, "min_instances": 4, "requests_per_s": 1, "tensor_parallel": 24},
        target=INF2,
    )
    assert open_.estimate.layout.copies > 1
    assert open_.usd <= whole.usd
    assert deployment_hours(open_) <= deployment_hours(whole)


def deployment_hours(quote):
    return sum(component.quantity for component in quote.components if component.name == DEPLOYMENT)


@pytest.mark.parametrize("wanted", [1, 8, 40])
def test_no_pinned_layout_is_cheaper_than_the_open_one(serving_priced, wanted):
    serve = {"requests_per_s": wanted, "input_tokens": 1400}
    open_ = of(serving_priced, serve, target=INF2)
    for degree in (4, 8, 24):
        for batch in (1, 8, 32):
            pinned = of(serving_priced, {**serve, "tensor_parallel": degree, "batch_size": batch}, target=INF2)
            assert pinned.refusals or pinned.usd >= open_.usd - CENT


def test_asynchronous_endpoint_has_a_layout_the_queue_can_fill(serving_priced):
    queue = {"asynchronous": True, "min_instances": 0, "requests_per_s": 1}
    neuron = of(serving_priced, queue, target=INF2)
    assert (neuron.estimate.layout.copies, neuron.refusals) == (1, ())
    gpu = of(serving_priced, queue, target={"instance_type": "p5.48xlarge"}).estimate.layout
    assert gpu.batch * gpu.copies <= 1000


def test_a_canary_is_given_a_layout_without_components(serving_priced):
    candidate = of(serving_priced, {"deployment": "canary", "min_instances": 2}, target=INF2)
    assert (candidate.estimate.layout.copies, candidate.refusals) == (1, ())


def test_refusal_of_every_layout_is_reported_for_the_cheapest(serving_priced):
    sections = {"network": {"vpc_id": "vpc-0123456789abcdef0", "subnet_ids": ["subnet-0123456789abcdef0"]}}
    candidate = of(serving_priced, target=INF2, **sections)
    assert "endpoint-network" in [refusal.code for refusal in candidate.refusals]
    assert candidate.estimate.measured


def test_the_place_is_the_cheapest_of_all(serving_priced):
    best = of(serving_priced, target={**INF2, "region": ["us-east-1", "us-west-2", "eu-central-1"]})
    sections = {
        "target": {**INF2, "region": ["us-east-1", "us-west-2", "eu-central-1"]},
        "purchase": {"option": "on-demand"},
    }
    every = serving_priced(None, options=PriceOptions(everything=True), **sections).candidates
    possible = [candidate.usd for candidate in every if candidate.usd is not None and not candidate.refusals]
    assert best.usd == min(possible)


def test_unmeasured_layout_does_not_replace_the_measured_one(serving_priced):
    """Six copies of four cores would be replaced in finer steps than the three that were measured."""
    for requests_per_s in (4, 12, 40, 75):
        assert of(serving_priced, {"requests_per_s": requests_per_s}, target=INF2).estimate.measured


@pytest.mark.parametrize("serve", [{}, {"input_tokens": 1400}, {"requests_per_s": 40}, {"asynchronous": True}])
def test_a_synthesis_by_hand_has_the_layout_of_the_quote(serving_priced, serve):
    sections = {"target": {**INF2, "region": "us-east-1"}, "purchase": {"option": "on-demand"}}
    quoted = of(serving_priced, serve, **sections).plan.request.workload.serve
    catalog = load()
    pinned = pinned_serving(requested(serve, **sections), catalog, BedrockCatalog(prices_as_of=None), load_serving())
    by_hand = pinned.request.workload.serve
    names = ("tensor_parallel", "batch_size", "sequence_length")
    assert [getattr(by_hand, name) for name in names] == [getattr(quoted, name) for name in names]


@pytest.mark.parametrize("types", [["inf2.48xlarge", "g6e.12xlarge"], ["p5.48xlarge", "trn1.32xlarge"]])
def test_plan_of_every_place_equals_the_plan_built_from_the_own_request(serving_priced, types):
    """The text of a layout's request is written once for all its places."""
    priced = serving_priced(
        target={"instance_type": types, "region": ["us-east-1", "us-west-2"]}, options=PriceOptions(everything=True)
    )
    plans = [candidate.plan for candidate in priced.candidates if candidate.fleet is not None]
    assert len({plan.place.region for plan in plans}) > 1
    assert len({plan.request.workload.serve for plan in plans}) > 1
    assert [plan.text for plan in plans] == [plan_at(plan.request, plan.place).text for plan in plans]
    assert [plan.request.workload.serve.max_instances for plan in plans] != [None] * len(plans)
