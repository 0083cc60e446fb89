"""What to commit to: the closed form against brute force, the guides' floor, and what is never committed to."""

from datetime import UTC, datetime
from decimal import Decimal
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.catalog.load import load
from launcher.cli.commit_page import page
from launcher.model.calendar import HOURS_A_YEAR
from launcher.pricing.commitment_choice import demand
from launcher.records.commit_document import commit_document
from launcher.workflow.quote.commit import commit
from launcher.workflow.quote.options import PriceOptions

NOW = datetime(2026, 11, 22, tzinfo=UTC)
LOADS = st.lists(st.tuples(st.floats(0.5, 200), st.floats(0.01, 1.0)), min_size=1, max_size=5)
TRAINING = (
    "slipway: 1\nname: NAME\n"
    "workload: {train: {model: llama-3.1-8b, tokens_b: 2.0, runs: 3650, runs_per_month: RUNS}}\n"
    "target: {kind: parallelcluster, instance_type: p5.48xlarge, nodes: 1, region: us-east-1}\n"
    "purchase: {option: OPTION}\n"
)


def brute(loads, level):
    """The mean of what of a level is used, by every combination of the loads."""
    total = 0.0
    for on in product((True, False), repeat=len(loads)):
        share, value = 1.0, 0.0
        for running, (usd, part) in zip(on, loads, strict=True):
            share *= part if running else 1 - part
            value += usd if running else 0.0
        total += share * min(value, level)
    return total


class TestDemand:
    @given(LOADS, st.floats(0, 500))
    def test_what_is_used_of_a_level_is_that_of_every_combination(self, loads, level):
        assert demand(loads).used(level) == pytest.approx(brute(loads, level), rel=1e-6, abs=1e-6)

    @given(LOADS, st.floats(0.2, 0.9))
    def test_no_other_level_saves_more_than_the_quantile(self, loads, ratio):
        curve = demand(loads)
        best = curve.used(curve.best(ratio)) - ratio * curve.best(ratio)
        for value, _ in curve.steps:
            assert curve.used(value) - ratio * value <= best + 1e-6

    @given(LOADS)
    def test_the_mean_and_the_floor(self, loads):
        curve = demand(loads)
        assert curve.mean == pytest.approx(sum(usd * share for usd, share in loads), rel=1e-6)
        assert curve.floor == pytest.approx(sum(usd for usd, share in loads if share == 1.0), abs=1e-6)

    def test_many_plans_are_joined_without_promising_more(self):
        loads = [(1.0 + index / 97, 0.5) for index in range(40)]
        curve = demand(loads)
        assert len(curve.steps) <= 8_100
        assert curve.mean <= sum(usd * share for usd, share in loads)
        assert curve.mean == pytest.approx(sum(usd * share for usd, share in loads), rel=0.05)


@pytest.fixture
def chosen(tmp_path):
    def make(*plans):
        paths = []
        for index, (runs, option) in enumerate(plans):
            path = tmp_path / f"plan{index}.yaml"
            text = TRAINING.replace("NAME", f"job{index}").replace("RUNS", str(runs)).replace("OPTION", option)
            path.write_text(text, encoding="utf-8")
            paths.append(path)
        return commit(paths, NOW, PriceOptions(sandbox=True))

    return make


def test_what_runs_all_the_time_is_committed_to_at_three_quarters_of_the_floor(chosen):
    found = chosen((200, "on-demand"))
    rate = load().on_demand("p5.48xlarge", "us-east-1").usd
    assert found.floor_usd_per_hour == rate
    assert found.choice.level == "floor"
    assert found.choice.covers_usd_per_hour == (rate * Decimal("0.75")).quantize(Decimal("0.001"))
    assert found.choice.utilisation == pytest.approx(1.0)
    assert found.choice.saving_usd > 0
    assert all(each.saving_usd <= found.choice.saving_usd for each in found.options if each.level == "floor")


def test_what_runs_now_and_then_is_not_committed_to(chosen):
    found = chosen((4, "on-demand"))
    assert found.floor_usd_per_hour == 0
    assert found.choice is None
    assert "Commit to nothing" in "\n".join(page(found, 100, everything=False))


def test_a_term_that_outlives_the_runs_is_paid_to_its_end(tmp_path):
    """24 runs of 700 hours, one a month: of three years one goes by unused."""
    plan = TRAINING.replace("tokens_b: 2.0, runs: 3650", "hours: 700, runs: 24").replace("RUNS", "1")
    path = tmp_path / "plan.yaml"
    path.write_text(plan.replace("NAME", "job").replace("OPTION", "on-demand"), encoding="utf-8")
    found = commit([path], NOW, PriceOptions(sandbox=True))
    (load_,) = found.loads
    assert load_.months == 24
    hours = load_.share * HOURS_A_YEAR * 2
    for each in found.options:
        used = hours * each.term_years / 2 if each.term_years == 1 else hours
        on_demand = float(load_.usd_per_hour) * used
        assert float(each.saving_usd) == pytest.approx(on_demand - float(each.commitment_usd), rel=0.01)


def test_spot_is_left_out_with_the_reason(chosen):
    found = chosen((200, "spot"))
    assert found.options == ()
    assert found.left_out == (("job0", "its best option is spot, which no commitment covers"),)


def test_reservations_come_in_whole_instances(chosen):
    rate = load().on_demand("p5.48xlarge", "us-east-1").usd
    found = chosen((200, "on-demand"), (200, "on-demand"))
    reserved = [each for each in found.options if each.instrument == "reserved" and each.level == "floor"]
    assert {each.covers_usd_per_hour / rate for each in reserved} <= {1}


def test_what_strands_it_and_what_one_more_dollar_brings_are_said(chosen):
    found = chosen((200, "on-demand"))
    text = "\n".join(page(found, 120, everything=True))
    assert "price cut of" in text
    assert "one more dollar an hour" in text
    values = [value for _, value in found.choice.marginal]
    assert values == sorted(values, reverse=True)
    assert "aws " in found.choice.command


def test_the_document_has_the_keys_of_the_contract(chosen):
    document = commit_document(chosen((200, "on-demand")))
    keys = {"instrument", "term_years", "payment", "usd_per_hour", "commitment_usd", "saving_usd", "utilisation"}
    assert document["schema"] == "slipway.commit/1"
    assert set(document["demand"]) == {"floor_usd_per_hour", "mean_usd_per_hour"}
    assert all(keys | {"break_even", "risks", "command"} <= set(each) for each in document["options"])
