"""Properties of the porting cost."""

import math
import re
from datetime import date
from decimal import Decimal
from statistics import NormalDist

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from launcher.catalog.load import load
from launcher.model.money import UsdRange
from launcher.pricing.port import break_even_run, port, weeks_text
from launcher.pricing.verdict import Choice, Terms, recommend
from tests.plans import request_of

TODAY = date(2026, 11, 20)
STACK = load().accelerators["Trainium2"].training_stack
money = st.decimals(min_value=0, max_value=Decimal(10) ** 15, places=4)
numbers = st.sampled_from([1e-300, 1e-9, 1.0, 1e9, 1e18]) | st.floats(1e-3, 1e4)


def request(**train):
    plan = {"slipway": 1, "name": "p", "workload": {"train": {"model": "llama-3.1-8b", "tokens_b": 1, **train}}}
    return request_of(plan)


def spread_of(mid: Decimal) -> UsdRange:
    return UsdRange(low=mid / 2, mid=mid, high=mid * 2)


def outcomes(mid: Decimal) -> tuple[float, ...]:
    return tuple(float(mid * Decimal(share)) for share in ("0.5", "0.8", "1", "1.25", "2"))


@settings(max_examples=150)
@given(
    gpu=money,
    trainium=money,
    runs=st.integers(1, 1_000_000),
    rate=numbers,
    weeks=st.just("auto") | st.floats(0, 1e6),
    week_usd=st.sampled_from([0, 1e-9, 5000, 1e12]) | st.floats(1e-6, 1e6),
    kernels=st.sampled_from(["none", "some", "heavy"]),
)
def test_random_ports_are_consistent_and_raise_no_traceback(  # noqa: PLR0917 - as many as @given gives
    gpu, trainium, runs, rate, weeks, week_usd, kernels
):
    plan_request = request(
        runs=runs, runs_per_month=rate, port_weeks=weeks, engineer_usd_per_week=week_usd, custom_kernels=kernels
    )
    both = outcomes(gpu), outcomes(trainium)
    port_cost = port(plan_request.workload.train, spread_of(gpu), spread_of(trainium), TODAY, both)
    alone, first, mixed = port_cost.paths
    assert alone.usd == runs * gpu
    assert 0 <= mixed.runs_on_gpu <= runs
    if port_cost.weeks.mid * port_cost.runs_per_month > 1e-6:
        assert mixed.runs_on_gpu >= 1
    if port_cost.break_even_run is not None:
        assert (port_cost.break_even_run <= runs) is port_cost.pays
        if port_cost.pays and port_cost.usd > 0:
            assert first.usd <= alone.usd * Decimal("1.000001") + Decimal("0.01")
    elif port_cost.maintenance_usd_per_month > 0:
        assert first.usd >= alone.usd * Decimal("0.999999")
    verdict = recommend(plan_request, plan_request.workload.train, port_cost, STACK, 10.0)
    assert verdict.text.endswith(".")
    if verdict.choice in {Choice.TRAINIUM, Choice.GPU_WHILE_PORTING}:
        assert port_cost.saving_usd > 0


@pytest.mark.parametrize("gpu, trainium", [(3222, 2688), (9213, 8200)])
def test_each_change_of_a_close_verdict_leads_to_the_side_that_it_names(gpu, trainium):
    """Before the change nothing is decided: a number of runs or a price is named only where that changes."""

    def decide(runs, usd):
        plan_request = request(runs=runs, runs_per_month=1, port_weeks=0.6, engineer_usd_per_week=5000)
        spread = [math.exp(0.45 * NormalDist().inv_cdf((step + 0.5) / 200)) for step in range(200)]
        both = tuple(gpu * share for share in spread), tuple(usd * share for share in spread)
        cost = port(plan_request.workload.train, spread_of(Decimal(gpu)), spread_of(Decimal(repr(usd))), TODAY, both)
        return recommend(plan_request, plan_request.workload.train, cost, STACK, 10.0)

    runs = next(runs for runs in range(2, 2000) if decide(runs, trainium).choice is Choice.MEASURE_FIRST)
    verdict = decide(runs, trainium)
    named = {"then GPUs": {Choice.GPU}, "then Trainium": {Choice.TRAINIUM, Choice.GPU_WHILE_PORTING}}
    followed = 0
    for text in verdict.flips:
        change, _, then = text.partition(": ")
        number = float(re.sub(r"[^0-9.]", "", re.search(r"[0-9,.]+", change).group()))
        changed = decide(runs, number) if change.startswith("a run") else decide(int(number), trainium)
        assert changed.choice in named[then], text
        followed += 1
    assert followed >= 2


def test_changes_of_a_close_verdict_need_the_side_that_cannot_be_had():
    plan_request = request(runs=60, runs_per_month=1, port_weeks=0.6, engineer_usd_per_week=5000)
    both = outcomes(Decimal(3222)), outcomes(Decimal(2688))
    cost = port(plan_request.workload.train, spread_of(Decimal(3222)), spread_of(Decimal(2688)), TODAY, both)
    terms = Terms(unavailable="Trainium")
    flips = recommend(plan_request, plan_request.workload.train, cost, STACK, 10.0, terms=terms).flips
    assert {text.partition(": ")[2] for text in flips} == {"then GPUs", "then Trainium, if it can be had"}


def test_break_even_is_the_first_run_with_savings_above_the_port_cost():
    assert break_even_run(Decimal(100), Decimal(1000), Decimal(60), 2.0) == 15
    assert 14 * (100 - 30) < 1000 <= 15 * (100 - 30)


def test_free_port_pays_from_the_first_run():
    port_cost = port(
        request(port_weeks=0, runs=3).workload.train, spread_of(Decimal(900)), spread_of(Decimal(100)), TODAY
    )
    assert port_cost.usd == 0
    assert port_cost.best.name == "port-first"
    assert port_cost.paths[2].runs_on_gpu == 0


@pytest.mark.parametrize("weeks, words", [(0.2, "1 day"), (0.6, "3 days"), (1, "1 week"), (6, "6 weeks")])
def test_port_weeks_are_written_in_days_or_weeks(weeks, words):
    assert weeks_text(weeks) == words
