"""Spot in HyperPod has no published rate: its derived price, upper bound and rank."""

from dataclasses import replace
from datetime import date
from decimal import Decimal

import pytest

from launcher.model.candidate_group import CandidateGroup
from launcher.model.enums import Basis, TargetKind
from launcher.model.money import Price, Unpriced
from launcher.planning.pin import pinned_plan
from launcher.pricing.gate import GateRules
from launcher.pricing.offers import offer
from launcher.pricing.rate_book import RateBook
from launcher.pricing.spot_prices import forecast_at, random_price
from launcher.workflow.quote.commands import CHANGES
from tests.plans import laid_over, request_of

TODAY = date(2026, 11, 20)
BASE = {
    "slipway": 1,
    "name": "small",
    "workload": {"train": {"hours": 10}},
    "target": {
        "kind": "hyperpod-eks",
        "cluster": "there",
        "region": "us-west-2",
        "az_id": "usw2-az2",
        "instance_type": "p5en.48xlarge",
        "nodes": 2,
    },
    "purchase": {"option": "spot"},
}


@pytest.fixture
def plan_with(catalog):
    def make(**sections):
        return pinned_plan(request_of(laid_over(BASE, sections)), catalog)

    return make


def test_hyperpod_spot_is_ec2_spot_times_the_ratio_of_on_demand_rates(catalog, plan_with):
    plan = plan_with()
    price = offer(plan.place, plan.request, catalog, TODAY).price
    forecast = forecast_at(plan.place, catalog, TODAY)
    assert forecast
    spot = Decimal(repr(forecast.middle))
    cluster = catalog.sagemaker("ml.p5en.48xlarge", "us-west-2", "cluster").usd
    plain = catalog.on_demand("p5en.48xlarge", "us-west-2").usd
    assert isinstance(price, Price)
    assert price.usd == (spot * cluster / plain).quantize(Decimal("0.0001"))
    assert price.basis is Basis.DERIVED
    assert "AWS publishes no rate of spot in HyperPod" in price.note


def test_the_most_is_the_rate_on_demand(catalog, plan_with):
    plan = plan_with()
    price = offer(plan.place, plan.request, catalog, TODAY).price
    forecast = forecast_at(plan.place, catalog, TODAY)
    random = random_price(plan.place, float(price.usd), forecast, 10.0)
    cluster = catalog.sagemaker("ml.p5en.48xlarge", "us-west-2", "cluster").usd
    assert random.ceiling == pytest.approx(float(cluster), abs=0.01)
    assert random.at(0.1) < random.mid < random.at(0.9) <= random.ceiling


def rate_of(place, request, catalog):
    """The rate of one place as screening has it."""
    group = CandidateGroup(place.target, place.instance_type, place.option, ((place.region, place.az_id),), (1,))
    book = RateBook(request, catalog, GateRules(today=TODAY, changes=CHANGES))
    return next((rate for _, _, rate, _ in book.rates(group)), None)


def test_screening_uses_the_derived_spot_rate(catalog, plan_with):
    plan = plan_with()
    price = offer(plan.place, plan.request, catalog, TODAY).price
    assert rate_of(plan.place, plan.request, catalog) == pytest.approx(float(price.usd), abs=1e-4)


def test_price_of_the_user_has_precedence(catalog, plan_with):
    plan = plan_with(purchase={"price_overrides": {"ml.p5en.48xlarge/spot": "30"}})
    price = offer(plan.place, plan.request, catalog, TODAY).price
    assert (price.usd, price.basis) == (Decimal(30), Basis.USER)


def test_without_a_rate_on_demand_there_is_none(catalog, plan_with):
    plan = plan_with()
    place = replace(plan.place, instance_type="g7.12xlarge")
    price = offer(place, plan.request, catalog, TODAY).price
    assert (rate_of(place, plan.request, catalog) is None) is isinstance(price, Unpriced)


def test_hyperpod_spot_with_slurm_is_unpriced(catalog, plan_with):
    plan = plan_with()
    place = replace(plan.place, target=TargetKind.HYPERPOD_SLURM)
    assert isinstance(offer(place, plan.request, catalog, TODAY).price, Unpriced)


class TestRefusals:
    @pytest.mark.parametrize(
        "sections,code",
        [
            ({"target": {"cluster": None}}, None),
            ({"purchase": {"option": "capacity-block"}}, "hyperpod-ec2-capacity"),
            ({"target": {"instance_type": "c5.large", "nodes": 1, "region": "us-west-2"}}, None),
        ],
    )
    def test_unsupported_hyperpod_spot_placements_are_reported(self, catalog, plan_with, sections, code):
        from launcher.planning.targets import place_findings

        plan = plan_with(**sections)
        codes = [finding.code for finding in place_findings(plan.request, plan.place, catalog)]
        assert codes == ([code] if code else [])
