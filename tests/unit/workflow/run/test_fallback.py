"""The fallback when no capacity arrives: the next candidate of a real plan, gated by its own quote."""

from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest

from launcher.model.enums import PurchaseOption
from launcher.model.errors import AwsError
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import price
from launcher.workflow.run.job import waits_s
from launcher.workflow.run.launch_options import LaunchOptions
from launcher.workflow.run.plan_launch import Fallback, is_hopeless, next_rank
from tests.checks import some
from tests.plans import NOW

PLAN = """
slipway: 1
name: far
workload: {train: {model: {params_b: 0.0002}, method: pretrain, tokens_b: 0.0001, sequence_length: 64}}
target: {kind: parallelcluster, region: us-east-2, instance_type: [trn1.2xlarge, p4d.24xlarge], nodes: 1}
purchase: {option: [spot, on-demand]}
"""
DAY = date(2026, 7, 31)
"""Spot was known by zone then, and every zone that is looked at had a market."""


@pytest.fixture(scope="module")
def priced_once(tmp_path_factory):
    path = tmp_path_factory.mktemp("plan") / "plan.yaml"
    path.write_text(PLAN)
    # In the sandbox an old price is a warning: what is chosen here does not depend on the day.
    return price(path, NOW, PriceOptions(everything=True, any_age=True, prices_as_of=DAY))


@pytest.fixture(scope="module")
def places(priced_once):
    return [candidate.place for candidate in priced_once.candidates]


def test_fallback_tries_candidates_in_order_until_none_left(priced_once, places):
    tried, order = [], []
    while (rank := next_rank(priced_once, tried)) is not None:
        order.append(rank)
        tried.append(places[rank - 1])
        assert len(order) <= len(places)
    assert order == list(range(1, len(places) + 1))
    assert {place.option for place in tried} == {PurchaseOption.SPOT, PurchaseOption.ON_DEMAND}
    assert len({place.az_id for place in tried if place.instance_type == "p4d.24xlarge"}) > 2


def test_fallback_skips_candidates_refused_by_gate(priced_once):
    dear = sorted(priced_once.quote(rank).usd.high for rank in range(1, len(priced_once.candidates) + 1))[-2]
    less = dear - Decimal("0.01")
    poorer = price(
        Path(priced_once.path), NOW, PriceOptions(everything=True, any_age=True, prices_as_of=DAY, max_usd=less)
    )
    allowed = [rank for rank in range(1, len(poorer.candidates) + 1) if poorer.quote(rank).gate.allows_launch]
    assert 0 < len(allowed) < len(poorer.candidates)
    assert next_rank(poorer, []) == allowed[0]
    assert next_rank(poorer, [poorer.candidates[rank - 1].place for rank in allowed]) is None


class TestCovered:
    def test_place_covers_equal_place(self, places):
        assert all(is_hopeless(place, place) for place in some(places))

    def test_place_does_not_cover_other_type_zone_or_option(self, places):
        spot = next(place for place in places if place.option is PurchaseOption.SPOT and place.az_id)
        assert not is_hopeless(replace(spot, instance_type="p5.48xlarge"), spot)
        assert not is_hopeless(replace(spot, option=PurchaseOption.ON_DEMAND), spot)
        assert not is_hopeless(replace(spot, az_id="use2-az9"), spot)
        assert not is_hopeless(replace(spot, az_id=None), spot)
        assert not is_hopeless(replace(spot, region="us-west-2"), spot)

    def test_tried_region_covers_zones_of_region(self, places):
        tried = replace(places[0], az_id=None)
        assert is_hopeless(replace(tried, az_id="use2-az1"), tried)

    def test_tried_place_does_not_cover_fewer_nodes(self, places):
        tried = replace(places[0], nodes=4)
        assert is_hopeless(replace(tried, nodes=4), tried)
        assert is_hopeless(replace(tried, nodes=8), tried)
        assert not is_hopeless(replace(tried, nodes=2), tried)


class TestObstacles:
    """Judged while the job still waits: what the cluster cannot become is no reason to take it back."""

    def fallback(self, priced, messages, obstacle):
        options = LaunchOptions(root=Path(), notify=messages.append, progress=lambda _: None)
        candidates, nothing = (lambda: priced), (lambda _: None)
        return Fallback(options=options, candidates=candidates, requote=nothing, options_for=nothing, obstacle=obstacle)

    def test_unreachable_candidate_is_left_out_once(self, priced_once, places):
        messages, checked = [], []

        def obstacle(quoted):
            checked.append(quoted.plan.place)
            return None if quoted.plan.place.option is PurchaseOption.ON_DEMAND else "its network stays in use2-az1"

        fallback = self.fallback(priced_once, messages, obstacle)
        assert fallback.announce_next()
        assert fallback.announce_next()
        best = next(place for place in places if place.option is PurchaseOption.ON_DEMAND)
        before = places[: places.index(best)]
        assert checked == [*before, best]
        assert sum("is left out: its network stays in use2-az1" in line for line in messages) == len(before)
        assert "the next candidate is" in messages[-1]

    def test_job_keeps_waiting_without_next_candidate(self, priced_once):
        def obstacle(_):
            raise AwsError("no answer")

        messages = []
        assert not self.fallback(priced_once, messages, obstacle).announce_next()
        assert messages[-1].endswith("the job continues to wait")


@pytest.mark.parametrize("kind, minutes", [("eks", 30), ("hyperpod-slurm", 150), ("hyperpod-eks", 150)])
def test_capacity_wait_includes_hyperpod_health_checks(tmp_path, kind, minutes):
    path = tmp_path / "plan.yaml"
    path.write_text(PLAN.replace("parallelcluster", kind).replace("[trn1.2xlarge, p4d.24xlarge]", "p4d.24xlarge"))
    assert waits_s(price(path, NOW, PriceOptions(any_age=True)).quote(1).plan) == minutes * 60
