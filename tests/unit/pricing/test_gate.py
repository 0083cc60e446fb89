"""The gate: what it refuses, in which order, and the maximum age of prices."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from launcher import plan_file
from launcher.catalog.load import load
from launcher.model.enums import Basis, PurchaseOption
from launcher.model.errors import ImpossibleError
from launcher.model.money import Price
from launcher.pricing.ages import ALLOWED_DAYS, age, expiry
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import pick, price_request
from tests.plans import EXAMPLES, NOW, PLANS, example_request

TRAINING = [path for path in PLANS if "train:" in path.read_text(encoding="utf-8")]
"""By a word of their text: a collection that reads every plan costs each worker a quarter of a second."""
OWN = {"price_overrides": {"p5.48xlarge/on-demand": "50"}}


def price(days: int, basis: Basis = Basis.LISTED) -> Price:
    return Price(usd=Decimal(1), source="x", basis=basis, as_of=NOW.date() - timedelta(days=days))


@pytest.mark.parametrize(
    "option, allowed",
    [
        (PurchaseOption.ON_DEMAND, 180),
        (PurchaseOption.RESERVED, 180),
        (PurchaseOption.SAVINGS_PLAN, 180),
        (PurchaseOption.TRAINING_PLAN, 180),
        (PurchaseOption.CAPACITY_BLOCK, 14),
        (PurchaseOption.SPOT, 2),
    ],
)
def test_prices_are_valid_for_the_allowed_days_with_a_warning_at_half(option, allowed):
    assert ALLOWED_DAYS[option] == allowed
    assert not age(price(allowed), option, NOW.date()).too_old
    assert age(price(allowed + 1), option, NOW.date()).too_old
    assert age(price(allowed // 2), option, NOW.date()).worth_a_warning
    assert not age(price(allowed // 2 - 1), option, NOW.date()).worth_a_warning
    assert not age(price(10_000, Basis.USER), option, NOW.date()).too_old
    assert expiry(price(allowed), option, NOW) == NOW
    assert expiry(price(0), option, NOW) == NOW + timedelta(days=allowed)


def gate(priced, changes=None, **options):
    return priced(changes, **options).quote(1).gate


def test_a_fresh_price_within_the_budget_is_allowed(priced):
    assert gate(priced, {"purchase": OWN}).allows_launch
    assert gate(priced, {"purchase": OWN}, max_usd=Decimal(2000)).allows_launch


def test_gate_refusals_have_priority_5_then_4_then_3(priced):
    late, poor = {"deadline_h": 1}, {"budget": {"max_usd": 1}}
    trn2 = {"instance_type": "trn2.48xlarge", "region": "us-east-2"}
    assert gate(priced, {"purchase": OWN, **poor}).exit_code == 3
    assert gate(priced, {"target": trn2, **poor}).exit_code == 4
    assert gate(priced, {"purchase": {"option": "spot"}, **poor}).exit_code == 4
    assert gate(priced, {"purchase": late, "target": trn2, **poor}).exit_code == 5


def test_a_price_of_a_day_to_come_is_refused(priced):
    assert not age(price(-1), PurchaseOption.SPOT, NOW.date()).too_old
    assert age(price(-2), PurchaseOption.SPOT, NOW.date()).to_come
    assert not age(price(-10_000, Basis.USER), PurchaseOption.SPOT, NOW.date()).too_old
    plan = {"target": {"instance_type": "p5.48xlarge"}, "purchase": {"option": "spot"}}
    gate = priced(plan, now=datetime(2020, 1, 1, tzinfo=UTC)).quote(1).gate
    assert gate.exit_code == 4
    assert gate.reason.startswith("the spot price is of 2026-")
    assert gate.reason.endswith(", and today is 2020-01-01")


def test_an_old_price_is_a_refusal_and_in_the_sandbox_a_warning(priced):
    spot = {"purchase": {"option": "spot"}, "target": {"region": "us-east-2"}}
    refused = gate(priced, spot)
    assert (refused.exit_code, refused.reason) == (4, "the spot price is 106 days old, at most 2 are allowed")
    assert gate(priced, spot, max_price_age=400).allows_launch
    allowed = priced(spot, any_age=True).quote(1)
    assert allowed.gate.allows_launch
    assert [finding.level for finding in allowed.findings if finding.code == "old-price"] == ["warning"]
    assert gate(priced, {"purchase": {"option": "on-demand"}}, max_price_age=0).exit_code == 4


def test_rows_have_the_same_order_in_the_sandbox_where_age_is_a_warning(priced):
    plan = {"purchase": {"option": ["spot", "on-demand"]}, "target": {"region": "us-east-2"}}
    on_aws, in_sandbox = priced(plan), priced(plan, any_age=True)
    assert [row.digest for row in in_sandbox.candidates] == [row.digest for row in on_aws.candidates]
    spot = next(rank for rank in range(2, 9) if in_sandbox.quote(rank).plan.place.option == "spot")
    assert in_sandbox.quote(spot).usd.mid < in_sandbox.quote(1).usd.mid
    assert (in_sandbox.quote(spot).gate.allows_launch, on_aws.quote(spot).gate.exit_code) == (True, 4)


def test_budget_is_compared_with_the_high_estimate(priced):
    quoted = priced({"workload": {"train": {"hours": None, "tokens_b": 2}}, "purchase": OWN}).quote(1)
    between = (quoted.usd.mid + quoted.usd.high) / 2
    refused = gate(priced, {"workload": {"train": {"hours": None, "tokens_b": 2}}, "purchase": OWN}, max_usd=between)
    assert refused.exit_code == 3
    assert "high estimate" in refused.reason
    assert f"--max-usd to {quoted.usd.high.to_integral_value(rounding='ROUND_CEILING')}" in refused.hint


def test_max_usd_only_lowers_the_budget(priced):
    plan = {"purchase": OWN, "budget": {"max_usd": 100}}
    of_plan, of_command = gate(priced, plan, max_usd=Decimal(100_000)), gate(priced, plan, max_usd=Decimal(50))
    assert "budget.max_usd $100.00" in of_plan.reason
    assert of_plan.hint.startswith("raise budget.max_usd to ")
    assert "--max-usd $50.00" in of_command.reason
    assert of_command.hint.startswith("raise budget.max_usd and --max-usd to ")
    assert gate(priced, {"purchase": OWN}, max_usd=Decimal(50)).hint.startswith("raise --max-usd to ")


def test_a_budget_below_a_cent_is_not_shown_as_zero(priced):
    assert gate(priced, {"budget": {"max_usd": 0.0001}}).reason.startswith("budget.max_usd $0.0001, high estimate $")


def test_an_hourly_budget_counts_all_nodes(priced):
    plan = {"purchase": OWN, "target": {"nodes": 4}, "budget": {"max_usd_per_hour": 199}}
    assert gate(priced, plan).exit_code == 3
    assert gate(priced, {**plan, "budget": {"max_usd_per_hour": 200}}).allows_launch


def test_refused_budget_names_the_best_candidate_within_the_budget(priced):
    plan = {
        "workload": {"train": {"hours": None, "tokens_b": 2}},
        "target": {"instance_type": ["p5.48xlarge", "p4d.24xlarge"], "nodes": 1},
        "purchase": {"price_overrides": {"p5.48xlarge/on-demand": "20", "p4d.24xlarge/on-demand": "21"}},
    }
    priced_plan = priced(plan)
    first, second = priced_plan.quote(1), priced_plan.quote(2)
    assert first.usd.high < second.usd.high
    refused = priced(plan, max_usd=(first.usd.high + second.usd.high) / 2).quote(2)
    assert refused.gate.exit_code == 3
    assert refused.gate.hint.endswith(f"; --pick {first.digest[:6]} at ${first.usd.mid:,.0f} can be launched now")


def test_price_age_counts_from_today_with_any_price_date(priced):
    quote = priced({"purchase": {"option": "on-demand"}}, prices_as_of=date(2024, 1, 1)).quote(1)
    assert quote.price.usd == Decimal("98.32")
    assert quote.gate.exit_code == 4


def test_examples_with_a_workload_to_train_are_those_with_the_word():
    assert [path for path in PLANS if example_request(path).workload.train is not None] == TRAINING


@pytest.mark.long
@pytest.mark.parametrize("path", TRAINING, ids=lambda path: str(path.relative_to(EXAMPLES)))
def test_hint_of_a_refusal_names_the_total_of_the_suggested_quote(path: Path):
    request = plan_file.load(path)
    purchase = replace(request.purchase, option=None, plan_kind=None, term_years=None, reservation=None)
    everything = replace(request, purchase=replace(purchase, training_plan=None))
    try:
        priced = price_request(path, everything, load(), NOW, PriceOptions())
    except ImpossibleError:
        priced = price_request(path, request, load(), NOW, PriceOptions())
    refused = [rank for rank in range(1, len(priced.candidates) + 1) if not priced.row(rank).gate.allows_launch]
    for rank in refused[:3]:
        if priced.cheapest_allowed is None:
            assert "can be launched now" not in priced.quote(rank).gate.hint
            continue
        picked, quote = pick(priced, priced.short_id(priced.cheapest_allowed))
        assert (picked, quote.gate.allows_launch) == (priced.cheapest_allowed, True)
        usd = quote.usd.mid
        shown = f"{usd:,.0f}" if usd >= 100 else f"{usd:,.2f}"
        assert f"{priced.short_id(picked)} at ${shown} can be launched now" in priced.quote(rank).gate.hint
