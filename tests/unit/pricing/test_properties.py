"""Properties of every quote."""

import copy
import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from launcher import plan_file
from launcher.answers.html.plan import table_of
from launcher.answers.plan import page
from launcher.answers.plan_document import candidates
from launcher.answers.plan_document import document as plan_document
from launcher.answers.quote import page as quote_page
from launcher.catalog.load import load
from launcher.model.document import document, plan_at
from launcher.model.errors import ImpossibleError, UnreadableInputError
from launcher.model.plan import SHORT_ID
from launcher.pricing.training import TrainingPriced
from launcher.pricing.training_candidate import plan_of
from launcher.records.quote_document import quote_document
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import NoSuchCandidateError, pick, price_request
from tests.plans import NOW, request_of
from tests.unit.pricing.conftest import price_over

CATALOG = load()
SPOT = {
    "slipway": 1,
    "name": "p",
    "workload": {"train": {"model": "llama-3.1-8b", "tokens_b": 5}},
    "target": {"instance_type": "p5.48xlarge", "nodes": 2, "region": "us-east-2", "az_id": "use2-az1"},
    "purchase": {"option": "spot", "interruptions_per_node_hour": 0.1},
}


def priced(plan):
    request = request_of(plan)
    return price_request(Path("plan.yaml"), request, CATALOG, NOW, PriceOptions())


def total(**changes) -> float:
    plan = copy.deepcopy(SPOT)
    for path, value in changes.items():
        section, key = path.rsplit("__", 1)
        at: dict[str, Any] = plan
        for name in section.split("__"):
            at = at.setdefault(name, {})
        at[key] = value
    return float(priced(plan).quote(1).usd.mid)


fast = settings(max_examples=40)


@fast
@given(rate=st.floats(0, 3), more=st.floats(0, 3))
def test_a_higher_hazard_never_costs_less(rate, more):
    assert total(purchase__interruptions_per_node_hour=rate + more) >= 0.995 * total(
        purchase__interruptions_per_node_hour=rate
    )


@fast
@given(tokens=st.floats(0.01, 500), more=st.floats(1, 10))
def test_more_tokens_never_cost_less(tokens, more):
    assert total(workload__train__tokens_b=tokens * more) >= total(workload__train__tokens_b=tokens) * (1 - 1e-9)


@fast
@given(interval=st.floats(30, 20_000), rate=st.floats(0.001, 1))
def test_automatic_interval_costs_at_most_one_percent_more_than_any_explicit_one(interval, rate):
    automatic = total(purchase__interruptions_per_node_hour=rate)
    explicit = total(purchase__interruptions_per_node_hour=rate, checkpoint__interval=interval)
    assert automatic <= 1.01 * explicit


@fast
@given(
    usd=st.floats(0.5, 200),
    more=st.floats(1.001, 5),
    option=st.sampled_from(["on-demand", "spot", "capacity-block"]),
)
def test_a_higher_price_never_costs_less_at_any_percentile(usd, more, option):
    quotes = []
    for price in (usd, usd * more):
        own = {f"p5.48xlarge/{option}": f"{price:.6f}"}
        purchase = {**SPOT["purchase"], "option": option, "price_overrides": own}
        # On one target: the cheapest one of a dearer price may have another distribution.
        target = {**SPOT["target"], "kind": "parallelcluster"}
        quotes.append(priced({**SPOT, "target": target, "purchase": purchase}).quote(1).usd)
    low, high = quotes
    for name in ("low", "mid", "high", "mean"):
        assert getattr(high, name) >= getattr(low, name) * Decimal("0.9999"), name


OPEN = [
    {"workload": {"train": {"model": "llama-3.1-8b", "tokens_b": 2}}, "target": {"region": "us-east-2"}},
    {
        "workload": {"train": {"model": "qwen3-30b-a3b", "tokens_b": 1, "method": "lora"}},
        "target": {"region": ["us-east-1", "eu-north-1"], "kind": ["eks", "parallelcluster"]},
    },
    {
        "workload": {"train": {"model": {"params_b": 1.2}, "examples": 200_000, "tokens_per_example": 700}},
        "target": {"region": "ap-northeast-2"},
        "budget": {"max_usd": 60},
    },
]


@pytest.mark.parametrize("changes", OPEN)
def test_rows_are_ordered_by_gate_then_total_and_ranked_without_gaps(changes):
    rows = priced({"slipway": 1, "name": "p", **changes})
    ranks = range(1, len(rows.candidates) + 1)
    assert len(ranks) > 5
    keys = [(rows.standing(rank), rows.candidates[rank - 1].usd) for rank in ranks]
    known = [(standing, usd) for standing, usd in keys if usd is not None]
    assert known == sorted(known)
    assert all(usd is None for _, usd in keys[len(known) :])
    for rank in ranks:
        row = rows.row(rank)
        assert rows.short_id(rank) == row.digest[: len(rows.short_id(rank))]
        assert row.hours.low <= row.hours.mid <= row.hours.high
        if row.usd is not None:
            assert row.usd.low <= row.usd.mid <= row.usd.high
            assert row.usd.low <= row.usd.mean
            assert row.usd.mid == rows.candidates[rank - 1].usd
    assert len({rows.short_id(rank) for rank in ranks}) == len({rows.digest(rank) for rank in ranks})


numbers = st.sampled_from([1e-9, 0.5, 3, 1e4, 1e12, 1e300]) | st.floats(1e-6, 1e6)
wholes = st.sampled_from([1, 2, 3, 64, 1000, 10_000, 10_001]) | st.integers(1, 200)


BEYOND_MEASURE = {
    "slipway": 1,
    "name": "p",
    "workload": {"train": {"model": "llama-3.1-8b", "tokens_b": 1e4, "runs_per_month": 1e12}},
    "target": {"instance_type": "p5.48xlarge", "region": "us-east-1", "nodes": 1000},
}
"""A commitment for its runs has more hours than a line of a bill counts."""


@st.composite
def plans(draw):
    """Plans of every kind, sensible and not."""
    model = draw(
        st.sampled_from(["llama-3.1-8b", "llama-3.1-405b", None]) | st.fixed_dictionaries({"params_b": numbers})
    )
    train = {"model": model, "sequence_length": draw(wholes), "runs_per_month": draw(numbers)}
    train[draw(st.sampled_from(["tokens_b", "hours"]))] = draw(numbers)
    train["data"] = {"gib": draw(numbers), "region": draw(st.sampled_from(["us-east-1", "eu-west-1", "nowhere", None]))}
    target = {
        "instance_type": draw(
            st.sampled_from(["p5.48xlarge", "trn2.48xlarge", "g5.xlarge", ["p4d.24xlarge", "inf2.xlarge"]])
        ),
        "region": draw(st.sampled_from(["us-east-1", "us-east-2", "any", ["eu-west-1", "us-west-2"]])),
        "nodes": draw(wholes | st.just("any") | st.just({"min": 2, "max": 9})),
    }
    purchase = {
        "option": draw(st.sampled_from(["any", "spot", "on-demand", "capacity-block", "savings-plan", "reserved"])),
        "deadline_h": draw(st.none() | numbers),
        "interruptions_per_node_hour": draw(st.none() | numbers),
        "discount_percent": draw(st.floats(0, 100)),
        "price_overrides": draw(st.just({}) | st.fixed_dictionaries({"p5.48xlarge/spot": numbers})),
        "reservation": draw(st.none() | st.fixed_dictionaries({"id": st.just("cr-01234567"), "fee_usd": numbers})),
        "credits": [{"pool": "x", "usd": draw(numbers)}],
    }
    checkpoint = {
        "mode": draw(st.sampled_from(["agent", "none"])),
        "keep": draw(wholes),
        "interval": draw(st.just("auto") | numbers),
    }
    return {
        "slipway": 1,
        "name": "p",
        "workload": draw(st.just({"train": train}) | st.just({})),
        "target": target,
        "purchase": purchase,
        "checkpoint": checkpoint,
        "storage": {"lustre_gib": draw(st.sampled_from([0, 1200, 2400, 10**30]))},
        "budget": {"max_usd": draw(st.none() | numbers)},
        "guardrails": {"ttl_h": draw(st.none() | numbers)},
    }


ENDLESS_AT_ITS_SLOWEST = {
    "slipway": 1,
    "name": "p",
    "workload": {"train": {"model": "llama-3.1-8b", "hours": 72_554}},
    "target": {"instance_type": "p5.48xlarge", "region": "us-east-1", "nodes": 1},
    "purchase": {"option": "any"},
    "checkpoint": {"interval": 0.5},
}


@pytest.mark.long
@pytest.mark.filterwarnings("error")
@settings(max_examples=120)
@given(plan=plans())
@example(plan=BEYOND_MEASURE)
@example(plan=ENDLESS_AT_ITS_SLOWEST)
def test_random_plan_raises_no_traceback_and_every_total_is_the_sum_of_the_lines(plan):
    priced_plan = priced_or_refused(plan)
    if priced_plan is None:
        return
    for width in (80, 120):
        page(priced_plan, width, everything=False)
    for rank, quoted in enumerate(priced_plan.quotes, start=1):
        check(quoted)
        quote_page(quoted, rank, 80, priced_plan)
        json_document = quote_document(quoted, rank, CATALOG.instance_types)
        assert json.loads(json.dumps(json_document, allow_nan=False)) == json_document
        again = plan_file.loads(json.dumps(document(quoted.plan.request), allow_nan=False))
        assert plan_at(again, quoted.plan.place).digest == quoted.plan.digest
        assert again == quoted.plan.request


def priced_or_refused(plan):
    """The candidates, or None when the plan was refused as one that cannot be read or cannot be done."""
    try:
        return priced(plan)
    except (ImpossibleError, UnreadableInputError):
        return None


def check(quoted):
    priced_lines = [component.usd for component in quoted.components if component.usd is not None]
    assert (quoted.usd is None) is (quoted.no_price_reason is not None)
    assert quoted.hours.low <= quoted.hours.mid <= quoted.hours.high <= 1e6
    if quoted.usd is not None:
        assert quoted.usd.low <= quoted.usd.mid <= quoted.usd.high
        assert quoted.usd.mid == sum(priced_lines, Decimal(0))
        assert all(line >= 0 for line in priced_lines)
    else:
        assert not quoted.gate.allows_launch
    assert quoted.gate.allows_launch is (quoted.gate.exit_code == 0)


@pytest.fixture(scope="module")
def clashing() -> TrainingPriced:
    """All rows of a plan whose name makes the digests of two rows begin with the same letters."""
    target = {"kind": "ec2", "instance_type": ["g6e.12xlarge", "p5.48xlarge"], "nodes": None, "region": None}
    job = {"workload": {"train": {"hours": None, "tokens_b": 1.0}}, "target": target, "purchase": {"option": None}}
    plan = price_over(job, everything=True)
    assert isinstance(plan, TrainingPriced)

    def has_clash(name: str) -> bool:
        context = replace(plan.context, request=replace(plan.request, name=name))
        digests = {plan_of(one.place, one.work, context).digest for one in plan.candidates}
        return len({digest[:SHORT_ID] for digest in digests}) < len(digests)

    name = next(name for name in (f"job-{number}" for number in range(1000)) if has_clash(name))
    found = price_over({**job, "name": name}, everything=True)
    assert isinstance(found, TrainingPriced)
    return found


def test_every_row_of_a_plan_has_an_id_of_its_own_in_json_table_and_page(clashing):
    ranks = range(1, len(clashing.candidates) + 1)
    ids = [clashing.short_id(rank) for rank in ranks]
    assert len(set(ids)) == len(ids)
    longer = [rank for rank in ranks if len(ids[rank - 1]) > SHORT_ID]
    assert len(longer) >= 2
    assert [json.loads(text)["id"] for text in candidates(clashing)] == ids
    assert [row["id"] for row in plan_document(clashing)["candidates"]] == ids
    shown = [(rank, clashing.quote(rank)) for rank in longer]
    table = table_of(shown, serves=False)
    for rank, quote in shown:
        assert quote.short_id == ids[rank - 1]
        assert f">{ids[rank - 1]}<" in table
        assert pick(clashing, ids[rank - 1])[0] == rank
    with pytest.raises(NoSuchCandidateError, match="2 candidates have this id"):
        pick(clashing, ids[longer[0] - 1][:SHORT_ID])
