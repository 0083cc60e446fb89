"""Plain numbers and objects agree: the same rates, and the same best place as looking at every one."""

from datetime import date

import pytest

from launcher.model.enums import PurchaseOption
from launcher.model.money import Price
from launcher.pricing.offers import offer
from launcher.pricing.rate_book import RateBook
from launcher.pricing.screening import all_places, best_places
from launcher.pricing.training_candidate import training_candidate

OPEN = {"workload": {"train": {"hours": None, "tokens_b": 2.0}}, "purchase": {"option": "any"}}
OWN = {"p5.48xlarge/on-demand": "12.5", "p4d.24xlarge/spot/us-east-1": "1.25", "p5.48xlarge/reserved/us-east-2": "3"}


def wide(**target: object) -> dict[str, object]:
    return {**OPEN, "target": {"nodes": "any", "region": "any", "instance_type": "any", **target}}


@pytest.mark.parametrize("day", [None, date(2026, 2, 15)])
def test_the_rate_book_has_the_rates_of_the_offers(priced, day):
    plan = {**wide(), "purchase": {"option": "any", "price_overrides": OWN, "payment": "partial-upfront"}}
    found = priced(plan, prices_as_of=day)
    context, book = found.context, RateBook(found.request, found.catalog)
    compared = 0
    for group in found.resolution.groups:
        rates = {(location, term): rate for location, term, rate in book.rates(group)}
        for location in range(len(group.locations)):
            for term in range(len(group.terms)):
                place = group.place(location, group.counts[0], term)
                price = offer(place, context.request, context.catalog, context.rules.today).price
                expected = float(price.usd) if isinstance(price, Price) else None
                assert rates.get((location, term)) == expected, place
                compared += expected is not None
    assert compared > 500


@pytest.mark.parametrize(
    "changes",
    [
        wide(instance_type=["p5.48xlarge", "p4d.24xlarge", "trn1.32xlarge", "trn2.48xlarge"]),
        {**wide(instance_type=["p5.48xlarge", "p5en.48xlarge"]), "purchase": {"option": "any", "deadline_h": 3}},
        {
            **wide(instance_type=["p5.48xlarge"]),
            "workload": {
                "train": {"hours": None, "tokens_b": 2.0, "data": {"gib": 40_000, "region": "us-east-2"}},
            },
        },
    ],
)
def test_the_best_place_is_the_best_of_all_places(priced, changes):
    found = priced(changes)
    context, works = found.context, found.resolution.estimator.work
    deadline = context.request.purchase.deadline_h
    best = {}
    for place in all_places(found.resolution.groups):
        candidate = training_candidate(place, works(place.instance_type, place.nodes), context)
        moved = [each.usd for each in candidate.components if each.name.startswith("training data")]
        compute = [each.usd for each in candidate.components if each.group == "compute"]
        usd = float(sum(compute + moved)) if candidate.priced else 0.0
        late = deadline is not None and candidate.hours > deadline
        key = (place.instance_type, place.option)
        row = (late, not candidate.priced, usd)
        best[key] = min(best.get(key, row), row)
    kept = best_places(found.resolution.groups, found.resolution.estimator, context)
    assert len(kept) == len(best)
    for place in kept:
        candidate = training_candidate(place, works(place.instance_type, place.nodes), context)
        late, unpriced, usd = best[place.instance_type, place.option]
        assert candidate.priced is not unpriced
        assert (deadline is not None and candidate.hours > deadline) is late
        if candidate.priced:
            moved = [each.usd for each in candidate.components if each.name.startswith("training data")]
            compute = [each.usd for each in candidate.components if each.group == "compute"]
            assert float(sum(compute + moved)) == pytest.approx(usd, rel=1e-6)


def test_a_transfer_of_data_keeps_the_job_where_the_data_lie(priced):
    near = {"train": {"hours": None, "tokens_b": 2.0, "data": {"gib": 400_000, "region": "us-west-2"}}}
    found = priced({**wide(instance_type="p5.48xlarge"), "workload": near, "purchase": {"option": "on-demand"}})
    assert [each.place.region for each in found.candidates] == ["us-west-2"]


def test_everything_open_is_at_least_five_thousand_combinations(priced):
    found = priced(wide())
    assert found.considered >= 5_000
    assert found.considered == sum(each.combinations for each in found.resolution.groups) + misfits(found)


def misfits(found):
    known = found.resolution.estimator.known
    too_big = {key for key, work in known.items() if work.misfit}
    assert too_big
    return found.considered - sum(each.combinations for each in found.resolution.groups)


def test_a_deadline_keeps_the_count_that_meets_it(priced):
    plan = wide(instance_type="p5.48xlarge", region="us-east-1")
    slow = priced({**plan, "purchase": {"option": "on-demand"}}).candidates[0]
    fast = priced({**plan, "purchase": {"option": "on-demand", "deadline_h": slow.hours / 2}}).candidates[0]
    assert fast.place.nodes > slow.place.nodes
    assert fast.hours <= slow.hours / 2
    assert not fast.refusals


def test_the_best_unpriced_row_shows_what_was_seen(priced):
    found = priced(wide(instance_type="trn2.48xlarge"))
    unpriced = {each.place.option: each for each in found.candidates if not each.priced}
    seen = unpriced[PurchaseOption.ON_DEMAND].offer.price.seen
    assert str(seen.usd) == "85.964"
    assert seen.basis == "unverified"


def test_several_nodes_need_efa_unless_they_are_asked_for(priced):
    small = {"train": {"model": {"params_b": 0.5}, "hours": None, "tokens_b": 2.0, "method": "lora"}}
    free = priced({**wide(instance_type="trn1.2xlarge", region="us-east-1"), "workload": small})
    assert {each.place.nodes for each in free.candidates} == {1}
    asked = priced({**wide(instance_type="trn1.2xlarge", region="us-east-1", nodes=4), "workload": small}).quote(1)
    assert "no-efa" in [each.code for each in asked.findings]
