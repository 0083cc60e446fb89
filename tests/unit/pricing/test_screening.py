"""Screening with plain numbers: the same rates and the same best place as the full calculation."""

from dataclasses import replace
from datetime import date

import pytest

from launcher.model.enums import Basis, PurchaseOption
from launcher.model.money import Price
from launcher.planning.targets import place_findings
from launcher.pricing.candidate import cheapest_fixed, order
from launcher.pricing.offers import offer
from launcher.pricing.quoting import outline
from launcher.pricing.rate_book import RateBook
from launcher.pricing.screening import all_candidates, all_places, best_candidates
from launcher.pricing.training_candidate import candidate_charged, training_candidate
from tests.checks import some

OPEN = {"workload": {"train": {"hours": None, "tokens_b": 2.0}}, "purchase": {"option": "any"}}
OWN = {"p5.48xlarge/on-demand": "12.5", "p4d.24xlarge/spot/us-east-1": "1.25", "p5.48xlarge/reserved/us-east-2": "3"}


FIVE = ["g7e.48xlarge", "trn1.32xlarge", "g6e.16xlarge", "g5.24xlarge", "g7e.24xlarge"]
LLAMA_70B = {"model": "llama-3.1-70b", "hours": None, "tokens_b": 2.0}


def wide(**target: object) -> dict[str, object]:
    return {**OPEN, "target": {"nodes": "any", "region": "any", "instance_type": "any", **target}}


@pytest.mark.parametrize("day", [None, date(2026, 2, 15)])
def test_the_rate_book_has_the_rates_of_the_offers(priced, day):
    plan = {**wide(), "purchase": {"option": "any", "price_overrides": OWN, "payment": "partial-upfront"}}
    priced_plan = priced(plan, prices_as_of=day)
    context, book = (
        priced_plan.context,
        RateBook(priced_plan.request, priced_plan.catalog, priced_plan.context.rules),
    )
    compared = 0
    for group in priced_plan.resolution.groups:
        rates = {(location, term): rate for location, term, rate, _ in book.rates(group)}
        for location in range(len(group.locations)):
            for term in range(len(group.terms)):
                place = group.place(location, group.node_counts[0], term)
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
            "workload": {"train": {"hours": None, "tokens_b": 2.0, "data": {"gib": 40_000, "region": "us-east-2"}}},
        },
        {
            **wide(instance_type=FIVE),
            "workload": {"train": {**LLAMA_70B, "data": {"gib": 20_000, "region": "us-west-2"}}},
        },
        {
            **wide(instance_type=["g6e.16xlarge", "g7e.24xlarge", "trn2.48xlarge"]),
            "workload": {
                "train": {"hours": None, "tokens_b": 20.0, "data": {"gib": 2_000, "region": "us-east-1"}},
            },
            "purchase": {"option": "any", "discount_percent": 15},
        },
    ],
)
def test_the_best_candidate_is_the_best_of_all_places_by_the_whole_bill(priced, changes):
    priced_plan = priced(changes)
    context, works = priced_plan.context, priced_plan.resolution.estimator.work
    deadline = context.request.purchase.deadline_h

    def row(candidate):
        late = deadline is not None and candidate.hours > deadline
        return late, not candidate.has_price, candidate.usd if candidate.has_price else 0

    best = {}
    for place in all_places(priced_plan.resolution.groups):
        draft = training_candidate(place, works(place.instance_type, place.nodes), context)
        key = (place.instance_type, place.option)
        best[key] = min(best.get(key, row(draft)), row(draft))
    assert {
        (candidate.place.instance_type, candidate.place.option): row(candidate)
        for candidate in priced_plan.candidates[::-1]
    } == best


FOUR = wide(instance_type=["p5.48xlarge", "g6.12xlarge", "trn1.32xlarge", "g5.8xlarge"])
LONG = {"workload": {"train": {"hours": None, "tokens_b": 90.0}}}


@pytest.mark.parametrize(
    "changes",
    [
        FOUR,
        {**FOUR, **LONG, "purchase": {"option": "any", "discount_percent": 30}},
        {**FOUR, "network": {"name": "team", "az_ids": ["use2-az1", "use2-az2"]}, "storage": {"lustre_gib": 4800}},
        {**FOUR, "purchase": {"option": "any", "deadline_h": 30}, "checkpoint": {"interval": 300, "keep": 9}},
        {**FOUR, "guardrails": {"idle_minutes": 0}, "budget": {"max_usd": 900}},
        {**FOUR, "guardrails": {"idle_minutes": 60, "ttl_h": 3}},
        {**FOUR, "run": {"command": ["true"], "data": [{"uri": "s3://team/a", "path": "/scratch/a", "gib": 6_000}]}},
    ],
    ids=["plain", "months", "zones", "deadline", "tail", "time limit", "disks"],
)
def test_screening_keeps_the_best_draft_of_every_group(priced, changes):
    priced_plan = priced(changes)
    context, work = priced_plan.context, priced_plan.resolution.estimator.work
    deadline = context.request.purchase.deadline_h
    best, drafts = {}, 0
    for place in all_places(priced_plan.resolution.groups):
        against = place_findings(context.request, place, context.catalog)
        draft = training_candidate(place, work(place.instance_type, place.nodes), context, against)
        if not draft.has_price:
            continue
        drafts += 1
        least = draft.other_costs.min_usd(draft.size)
        quoted_usd = float(draft.other_costs.total_usd(draft.size))
        assert quoted_usd - 0.05 - quoted_usd * 1e-6 <= least <= quoted_usd, place
        late = deadline is not None and draft.hours > deadline
        key = (place.instance_type, place.option)
        best[key] = min(best.get(key, (late, order(draft))), (late, order(draft)))
    # Of an offering in two lengths the first counts, which is the cheaper.
    priced_ones = [candidate for candidate in priced_plan.candidates[::-1] if candidate.has_price]
    assert {(one.place.instance_type, one.place.option): order(one) for one in priced_ones} == {
        key: row for key, (_, row) in best.items()
    }
    assert drafts > 20 * len(best)


@pytest.mark.parametrize("kind", ["parallelcluster", "eks"])
def test_rows_of_all_places_equal_the_row_of_each_place_alone(priced, kind):
    regions = ["us-east-1", "us-east-2", "eu-north-1"]
    priced_plan = priced(wide(instance_type=["p5.48xlarge", "trn1.32xlarge"], kind=kind, region=regions))
    resolution, context = priced_plan.resolution, priced_plan.context

    def candidate_of(place, cost):
        work = resolution.estimator.work(place.instance_type, place.nodes)
        return candidate_charged(place, work, context, cost, ())

    rows = list(all_candidates(resolution.groups, resolution.estimator, context, candidate_of))
    assert [row.place for row in rows] == list(all_places(resolution.groups))
    rival = cheapest_fixed(rows)
    for row in rows:
        alone = training_candidate(row.place, row.work, replace(context, charges={}, choices={}))
        assert outline(row, rival) == outline(alone, rival), row.place
    broken_even = [row for row in rows if outline(row, rival).spot is not None and row.usd < rival]
    assert len({row.place.region for row in broken_even}) > 1
    assert len(context.charges) < 2 * len(broken_even)


def test_of_regions_with_equal_prices_only_the_first_is_priced_in_full(priced):
    priced_plan = priced({**wide(instance_type="p5.48xlarge", kind="parallelcluster"), "purchase": {"option": "any"}})
    resolution, context, in_full = priced_plan.resolution, priced_plan.context, []

    def candidate_of(place, cost):
        in_full.append(place)
        work = resolution.estimator.work(place.instance_type, place.nodes)
        return candidate_charged(place, work, context, cost, place_findings(context.request, place, context.catalog))

    best = best_candidates(resolution.groups, resolution.estimator, context, candidate_of)
    on_demand = next(one for one in best if one.place.option is PurchaseOption.ON_DEMAND)
    regions = [place.region for place in in_full if place.option is PurchaseOption.ON_DEMAND]
    assert regions == [on_demand.place.region] == ["us-east-1"]
    twin = replace(on_demand.place, region="us-east-2")
    assert training_candidate(twin, on_demand.work, context).usd == on_demand.usd


def test_undeployable_cheap_place_does_not_hide_a_dearer_deployable_one(priced):
    cheap = {"p5.48xlarge/on-demand/ap-northeast-1": "0.5"}
    plan = {
        **wide(instance_type="p5.48xlarge"),
        "target": {"instance_type": "p5.48xlarge", "nodes": 1, "region": ["ap-northeast-1", "us-east-2"]},
        "network": {"name": "team", "az_ids": ["use2-az1"]},
        "purchase": {"option": "on-demand", "price_overrides": cheap},
    }
    (best,) = priced(plan).candidates
    assert best.place.region == "us-east-2"
    assert not best.refusals


def test_first_row_is_equal_with_and_without_all(priced):
    changes = wide(instance_type=["p5.48xlarge", "p5en.48xlarge", "p4d.24xlarge", "trn2.48xlarge"], nodes={"max": 4})
    few, every = priced(changes), priced(changes, everything=True)
    assert few.candidates[0].plan == every.candidates[0].plan
    ranks = [priced_plan.cheapest_of("neuron") for priced_plan in (few, every)]
    assert few.candidates[ranks[0] - 1].plan == every.candidates[ranks[1] - 1].plan


def test_rows_of_regions_without_listed_lines_rank_by_the_total_with_derived_ones(priced):
    priced_plan = priced({**wide(), "purchase": {"option": "spot"}}, everything=True)
    totals = [
        candidate.usd for candidate in priced_plan.candidates if candidate.usd is not None and not candidate.refusals
    ]
    assert totals == sorted(totals)
    stores = [
        component
        for candidate in priced_plan.candidates
        for component in candidate.components
        if component.name == "S3 uploads"
    ]
    derived = [store for store in stores if store.basis is Basis.DERIVED]
    assert all(store.unpriced is None and store.usd > 0 for store in some(derived))


def test_a_transfer_of_data_keeps_the_job_where_the_data_lie(priced):
    near = {"train": {"hours": None, "tokens_b": 2.0, "data": {"gib": 400_000, "region": "us-west-2"}}}
    priced_plan = priced({**wide(instance_type="p5.48xlarge"), "workload": near, "purchase": {"option": "on-demand"}})
    assert [candidate.place.region for candidate in priced_plan.candidates] == ["us-west-2"]


def test_open_plan_considers_at_least_five_thousand_combinations(priced):
    priced_plan = priced(wide())
    assert priced_plan.considered >= 5_000
    assert priced_plan.considered == sum(group.combinations for group in priced_plan.resolution.groups) + misfits(
        priced_plan
    )


def misfits(priced_plan):
    assert {key for key, work in priced_plan.resolution.estimator.estimates.items() if work.misfit}
    return priced_plan.considered - sum(group.combinations for group in priced_plan.resolution.groups)


def test_deadline_keeps_the_node_count_needed(priced):
    plan = wide(instance_type="p5.48xlarge", region="us-east-1")
    slow = priced({**plan, "purchase": {"option": "on-demand"}}).candidates[0]
    fast = priced({**plan, "purchase": {"option": "on-demand", "deadline_h": slow.hours / 2}}).candidates[0]
    assert fast.place.nodes > slow.place.nodes
    assert fast.hours <= slow.hours / 2
    assert not fast.refusals


def test_best_unpriced_row_shows_the_unverified_rate(priced):
    priced_plan = priced(wide(instance_type="trn2.48xlarge"))
    unpriced = {candidate.place.option: candidate for candidate in priced_plan.candidates if not candidate.has_price}
    unverified_rate = unpriced[PurchaseOption.ON_DEMAND].offer.price.unverified
    assert str(unverified_rate.usd) == "85.964"
    assert unverified_rate.basis == "unverified"


@pytest.mark.parametrize("nodes, mode, warned", [(32, "agent", False), (33, "agent", True), (33, "dcp", False)])
def test_restore_by_all_on_many_nodes_is_a_warning(priced, nodes, mode, warned):
    plan = wide(instance_type="p5.48xlarge", region="us-east-2", nodes=nodes)
    quote = priced({**plan, "checkpoint": {"mode": mode}}).quote(1)
    (size,) = {round(quote.work.checkpoint_gb)}
    messages = [finding.message for finding in quote.findings if finding.code == "restore-by-all"]
    whole = f"at a restore, each of the 33 nodes reads the files of all nodes, {size:,} GB"
    assert [message.startswith(whole) for message in messages] == [True] * warned


@pytest.mark.parametrize(
    "params_b, nodes, mode, warned",
    [(8, 1, "agent", False), (405, 1, "agent", True), (405, 1, "dcp", False), (405, 32, "agent", False)],
)
def test_disk_too_small_for_the_checkpoints_is_a_warning(priced, params_b, nodes, mode, warned):
    plan = wide(instance_type="p4d.24xlarge", region="us-east-1", nodes=nodes)
    work = {"train": {"model": {"params_b": params_b}, "hours": 100, "tokens_b": None, "method": "pretrain"}}
    quote = priced({**plan, "workload": work, "checkpoint": {"mode": mode}}).quote(1)
    messages = [finding.message for finding in quote.findings if finding.code == "disk-too-small"]
    assert [message.startswith("a node of p4d.24xlarge needs about ") for message in messages] == [True] * warned


def test_several_nodes_need_efa_unless_the_plan_sets_the_count(priced):
    small = {"train": {"model": {"params_b": 0.5}, "hours": None, "tokens_b": 2.0, "method": "lora"}}
    free = priced({**wide(instance_type="trn1.2xlarge", region="us-east-1"), "workload": small})
    assert {candidate.place.nodes for candidate in free.candidates} == {1}
    quote = priced({**wide(instance_type="trn1.2xlarge", region="us-east-1", nodes=4), "workload": small}).quote(1)
    assert "no-efa" in [finding.code for finding in quote.findings]


def test_types_with_the_same_chips_have_equal_speed_and_separate_ranges(priced):
    estimator = priced(wide()).resolution.estimator
    fresh = replace(estimator, estimates={}, _alike={})
    for name in ("p5e.48xlarge", "p5en.48xlarge"):
        assert estimator.work(name, 2) == fresh.work(name, 2), name
        assert fresh.work(name, 2).instance_type == name
    p5e, p5en = (fresh.work(name, 2).training.tokens_per_s for name in ("p5e.48xlarge", "p5en.48xlarge"))
    assert p5e.mid == p5en.mid
    assert (p5e.low, p5e.high) != (p5en.low, p5en.high), "runs were measured on one of them"
    assert replace(fresh, estimates={}, _alike={}).work("p5en.48xlarge", 2) == fresh.work("p5en.48xlarge", 2)
