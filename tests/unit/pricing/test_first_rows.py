"""The first rows of a screen: its page equals the one with the best candidate of every kind, and fewer are priced."""

import pytest

from launcher.answers.plan_screen import MAX_ROWS, page, shown_ranks
from launcher.model.enums import PurchaseOption
from launcher.pricing.standing import Standing
from tests.unit.pricing.conftest import Pricer

OPEN = {"kind": None, "instance_type": "any", "nodes": "any", "region": "any"}
FEW_TYPES = ["p5.48xlarge", "p5en.48xlarge", "p4d.24xlarge", "g6e.12xlarge", "trn1.32xlarge", "trn2.48xlarge"]
OLD = ["p5.48xlarge", "p5en.48xlarge", "p4d.24xlarge", "g6e.12xlarge", "trn2.48xlarge"]


def plan(target: dict[str, object], train: dict[str, object], **purchase: object) -> dict[str, object]:
    train = {"model": "llama-3.1-8b", "hours": None, "tokens_b": 1.0, **train}
    return {"workload": {"train": train}, "target": {**OPEN, **target}, "purchase": {"option": "any", **purchase}}


PLANS = {
    "everything": plan({}, {}),
    "some types in two regions": plan({"instance_type": FEW_TYPES, "region": ["us-east-1", "eu-north-1"]}, {}),
    "a deadline": plan({"instance_type": FEW_TYPES}, {"tokens_b": 20.0}, deadline_h=24),
    "targets side by side": plan({"kind": "any", "instance_type": FEW_TYPES[:3]}, {"method": "lora"}),
    "a job as dear as a commitment": plan({"instance_type": FEW_TYPES}, {"tokens_b": 600.0, "method": "full"}),
    "commitments that the user owns": plan({"instance_type": FEW_TYPES[:3]}, {}, owned=True),
    "a price of one's own": plan({"instance_type": FEW_TYPES}, {}, price_overrides={"p4d.24xlarge/spot": "0.5"}),
    "a family at old prices alone": plan({"instance_type": OLD}, {}, option=["on-demand", "capacity-block"]),
    "a size that few types hold": plan({"instance_type": FEW_TYPES}, {"model": "llama-3.1-70b", "method": "full"}),
}


@pytest.mark.parametrize("changes", PLANS.values(), ids=PLANS)
def test_the_first_screen_equals_that_of_all_kinds(priced: Pricer, changes):
    whole, first = priced(changes), priced(changes, first_rows=MAX_ROWS)
    for width in (80, 120):
        assert page(first, width) == page(whole, width)
    for of_whole, of_first in zip(shown_ranks(whole), shown_ranks(first), strict=True):
        assert [first.digest(rank) for rank in of_first] == [whole.digest(rank) for rank in of_whole]
    assert len(first.candidates) < len(whole.candidates)
    assert first.considered == whole.considered


def test_a_budget_that_refuses_every_row_leaves_none_out(priced: Pricer):
    changes = {**PLANS["some types in two regions"], "budget": {"max_usd": 1}}
    whole, first = priced(changes), priced(changes, first_rows=MAX_ROWS)
    assert not any(whole.standing(rank) is Standing.ALLOWED for rank in range(1, len(whole.candidates) + 1))
    assert page(first, 120) == page(whole, 120)


@pytest.mark.parametrize("options", [["capacity-block", "training-plan", "on-demand"], ["capacity-block", "spot"]])
def test_capacity_to_be_bought_has_its_rows_on_the_first_screen(priced: Pricer, options):
    changes = plan({}, {"tokens_b": 20.0}, option=options)
    whole, first = priced(changes, max_price_age=3650), priced(changes, max_price_age=3650, first_rows=MAX_ROWS)
    shown = {first.standing(rank) for rank in shown_ranks(first)[0]}
    assert shown == {Standing.ALLOWED, Standing.UNNAMED}
    for width in (80, 120):
        assert page(first, width) == page(whole, width)
    assert len(first.candidates) < len(whole.candidates)


def test_new_commitments_are_priced_if_no_other_refused_row_is_cheaper(priced: Pricer):
    target = {"instance_type": FEW_TYPES, "region": ["us-east-1", "us-east-2"]}
    changes = plan(target, {"tokens_b": 600.0}, option=["on-demand", "reserved", "savings-plan"])
    whole, first = priced(changes, max_price_age=3650), priced(changes, max_price_age=3650, first_rows=MAX_ROWS)
    committed = [
        candidate.place.option in (PurchaseOption.RESERVED, PurchaseOption.SAVINGS_PLAN)
        for candidate in first.candidates
    ]
    assert any(committed)
    assert page(first, 80) == page(whole, 80)
