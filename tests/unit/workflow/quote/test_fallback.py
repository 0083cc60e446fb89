"""The types among which EC2 chooses at each start and replacement: priced and gated before the launch."""

import json
from decimal import Decimal
from unittest.mock import ANY

import pytest
import yaml

from launcher.answers.plan import page as plan_page
from launcher.model.errors import ImpossibleError, OverBudgetError, UnpricedError
from launcher.workflow.quote.fallback import fallback_findings, fallback_quotes, with_refused_types
from launcher.workflow.quote.fresh import gated_quote
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import price
from tests.plans import NOW

G6E = {"kind": "ec2", "region": "us-east-2", "instance_type": "g6e.2xlarge", "nodes": 1}


@pytest.fixture
def plan_path(tmp_path):
    """The file of an hour on a g6e.2xlarge with fallback types and further keys."""

    def make(*types, target=None, **keys):
        plan = {"slipway": 1, "name": "small", "workload": {"train": {"hours": 1.0}}}
        plan |= {"purchase": {"option": "on-demand"}, "run": {"command": ["python", "-c", "pass"]}}
        plan |= {"target": {**G6E, **(target or {}), "fallback_types": list(types)}, **keys}
        path = tmp_path / "plan.yaml"
        path.write_text(yaml.safe_dump(plan))
        return path

    return make


def gated(path):
    return gated_quote(path, NOW, PriceOptions(), selection=None, notify=lambda _: None).quoted


def test_each_type_is_quoted_for_the_whole_job_in_the_same_place(plan_path):
    path = plan_path("g6e.4xlarge", "g6e.8xlarge")
    priced = price(path, NOW, PriceOptions())
    quotes = fallback_quotes(path, priced, priced.quote(1), NOW, PriceOptions())
    places = [quote.plan.place for quote in quotes]
    assert [place.instance_type for place in places] == ["g6e.4xlarge", "g6e.8xlarge"]
    assert {(place.region, place.nodes, place.target, place.option) for place in places} == {
        (place.region, place.nodes, place.target, place.option) for place in [priced.quote(1).plan.place]
    }
    assert quotes[0].usd.mid < quotes[1].usd.mid
    assert [finding.level for finding in fallback_findings(quotes)] == ["info", "info"]


def test_dearer_type_over_the_budget_is_refused_though_the_first_fits(plan_path):
    alone = gated(plan_path())
    between = f"{alone.usd.high + Decimal('0.5'):.2f}"
    assert gated(plan_path(budget={"max_usd": float(between)})).gate.allows_launch
    with pytest.raises(OverBudgetError, match=r"fallback type g6e\.8xlarge: budget") as refused:
        gated(plan_path("g6e.8xlarge", budget={"max_usd": float(between)}))
    assert "remove the type from target.fallback_types" in refused.value.hint


def test_dearer_type_over_the_hourly_budget_is_refused(plan_path):
    with pytest.raises(OverBudgetError, match=r"fallback type g6e\.16xlarge"):
        gated(plan_path("g6e.16xlarge", budget={"max_usd_per_hour": 4.0}))


def test_unpriced_type_is_refused(plan_path):
    """The price of a type that no catalog has: EC2 would start it, and nobody would know what it costs."""
    purchase = {"option": "spot", "price_overrides": {"g6e.2xlarge/spot": "1.00"}}
    target = {"region": "me-central-1"}
    assert gated(plan_path(target=target, purchase=purchase)).gate.allows_launch
    with pytest.raises((UnpricedError, ImpossibleError), match=r"fallback type g6e\.4xlarge"):
        gated(plan_path("g6e.4xlarge", target=target, purchase=purchase))


def test_guard_counts_at_the_rate_of_the_dearest_type(plan_path):
    alone, several = gated(plan_path()), gated(plan_path("g6e.8xlarge", "g6e.4xlarge"))
    assert alone.amounts(None)["usd_per_hour"] == alone.usd_per_hour
    assert several.usd_per_hour == alone.usd_per_hour
    assert several.amounts(None)["usd_per_hour"] == Decimal("4.52856")
    assert alone.rates.type_usd_per_hour == ()
    rates = dict(several.rates.type_usd_per_hour)
    assert rates == {"g6e.2xlarge": several.usd_per_hour, "g6e.8xlarge": Decimal("4.52856"), "g6e.4xlarge": ANY}


def test_quote_of_plan_refused_on_fallback_type_is_refused(plan_path, slipway):
    alone = gated(plan_path())
    limit = {"max_usd": float(alone.usd.high + Decimal("0.5"))}
    path = plan_path("g6e.8xlarge", budget=limit)
    gate = json.loads(slipway("quote", str(path), "--json", "--prices-as-of", f"{NOW:%Y-%m-%d}").out)["gate"]
    assert (gate["verdict"], gate["exit_code"]) == ("refuse", 3)
    assert gate["reason"].startswith("fallback type g6e.8xlarge: budget")
    out = slipway("quote", str(path)).out
    assert "EC2 may choose another type: fallback type g6e.8xlarge: $4.53 an hour" in " ".join(out.split())


def test_queues_of_a_cluster_are_not_chosen_by_ec2(plan_path):
    path = plan_path("g6e.4xlarge", target={"kind": "parallelcluster"})
    priced = price(path, NOW, PriceOptions())
    assert fallback_quotes(path, priced, priced.quote(1), NOW, PriceOptions()) == ()


@pytest.mark.parametrize("types, warned", [(("g6e.8xlarge",), True), ((), False)])
def test_plan_warns_of_a_fallback_type_that_refuses_its_first_row(plan_path, types, warned):
    budget = {"max_usd": float(f"{gated(plan_path()).usd.high + Decimal('0.5'):.2f}")}
    path = plan_path(*types, budget=budget)
    priced = with_refused_types(path, price(path, NOW, PriceOptions()), PriceOptions())
    assert priced.quote(1).gate.allows_launch
    shown = " ".join(" ".join(plan_page(priced, 80, everything=False)).split())
    assert ("a launch is refused: fallback type g6e.8xlarge: budget" in shown) == warned
