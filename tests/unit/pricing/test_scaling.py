"""Scaling limits: published batch sizes bound the batch, and a deadline is met with the fewest nodes."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from launcher.catalog.load import load
from launcher.catalog.training import load_training
from launcher.planning import duration, utilisation
from launcher.planning.shape import TrainingShape
from tests.unit.pricing.conftest import price_over

FACTS = load_training()
H100 = load().accelerators["H100"]
OPEN = {"workload": {"train": {"model": "llama-3.1-8b", "hours": None, "tokens_b": 100}}}


def on(nodes, **train):
    plan = {"workload": {"train": {**OPEN["workload"]["train"], **train}}, "target": {"nodes": nodes}}
    return price_over(plan)


def test_2048_nodes_do_not_keep_the_utilisation_of_a_few():
    few, many = on(8).quote(1).work.training.mfu.mid, on(2048).quote(1).work.training.mfu.mid
    assert many < 0.55 * few


def test_assumed_batch_is_the_batch_of_published_runs_of_the_size():
    batch = next(assumption for assumption in on(2048).quote(1).assumptions if assumption.name == "batch")
    assert float(batch.value) == pytest.approx(8_388_608, rel=0.01)
    assert "published runs" in batch.source
    assert FACTS.largest_batch(405, moe=False).tokens == 16e6
    assert "DeepSeek" in FACTS.largest_batch(671, moe=True).source
    for published_batch in FACTS.batches:
        assert published_batch.source
        assert published_batch.as_of


def test_batch_above_published_runs_is_a_finding_with_hours_and_dollars_at_the_published_limit():
    quote = on(256, global_batch_tokens=64_000_000).quote(1)
    (finding,) = [finding for finding in quote.findings if finding.code == "batch-beyond-published"]
    bound = on(256, global_batch_tokens=8_388_608).quote(1)
    assert f"{bound.hours.mid:,.1f} h and ${bound.usd.mid:,.0f}" in finding.message
    assert finding.path == "workload.train.global_batch_tokens"
    assert not [finding for finding in bound.findings if finding.code == "batch-beyond-published"]


@pytest.mark.parametrize("option", ["on-demand", "spot", "savings-plan"])
def test_a_deadline_is_met_at_the_cheapest_number_of_nodes(option):
    purchase = {"option": option, "owned": True, "term_years": 3, "deadline_h": 60}
    best = price_over({**OPEN, "target": {"nodes": "any"}, "purchase": purchase}).candidates[0]
    assert best.hours <= 60
    every = [
        price_over({**OPEN, "target": {"nodes": count}, "purchase": {**purchase, "deadline_h": None}}).candidates[0]
        for count in range(max(1, best.place.nodes // 2), best.place.nodes + 1)
    ]
    in_time = [candidate.usd for candidate in every if candidate.hours <= 60]
    assert float(best.usd) <= float(min(in_time)) * 1.02


@pytest.mark.parametrize("nodes", ["any", {"min": 1, "max": 600}])
def test_deadline_missed_by_64_nodes_is_met_by_more(nodes):
    purchase = {"option": "on-demand", "deadline_h": 72}
    workload = {"train": {**OPEN["workload"]["train"], "tokens_b": 2000}}
    best = price_over({"workload": workload, "target": {"nodes": nodes}, "purchase": purchase}).candidates[0]
    assert best.place.nodes > 64
    assert best.hours <= 72
    fewer = price_over({"workload": workload, "target": {"nodes": best.place.nodes - 1}, "purchase": purchase})
    assert fewer.candidates[0].hours > 72


def test_unreachable_deadline_leaves_the_usual_node_counts():
    plan = {**OPEN, "target": {"nodes": "any"}, "purchase": {"option": "on-demand", "deadline_h": 0.1}}
    priced_plan = price_over(plan)
    assert priced_plan.considered == 7
    assert priced_plan.candidates[0].place.nodes in (4, 8)
    assert priced_plan.candidates[0].hours > 0.1


def test_no_alternative_misses_the_deadline():
    plan = {**OPEN, "target": {"kind": "any", "instance_type": "any", "nodes": "any", "region": "any"}}
    late = price_over({**plan, "purchase": {"option": "any"}}).alternatives
    in_time = price_over({**plan, "purchase": {"option": "any", "deadline_h": 60}}).alternatives
    assert max(alternative.hours.mid for alternative in late) > 60
    assert all(alternative.hours.mid <= 60 for alternative in in_time)


def mfu(active):
    shape = TrainingShape(params_b=100.0, active_params_b=active, accelerator=H100, chips=64, chips_per_node=8)
    return utilisation.estimate(shape, FACTS).mid


@settings(max_examples=200)
@given(fraction=st.floats(0.5, 0.999))
def test_mfu_is_continuous_between_dense_models_and_mixtures_of_experts(fraction):
    assert mfu(100 * fraction * 1.001) == pytest.approx(mfu(100 * fraction), rel=0.02)


@settings(max_examples=60)
@given(chips=st.integers(1, 20_000), more=st.integers(0, 20_000), params=st.sampled_from([1.0, 8.0, 70.0, 405.0]))
def test_more_chips_never_take_longer(chips, more, params):
    most = FACTS.largest_batch(params, moe=False).tokens

    def hours(count):
        shape = TrainingShape(
            params_b=params,
            active_params_b=params,
            accelerator=H100,
            chips=count,
            chips_per_node=8,
            max_batch_tokens=most,
        )
        return duration.numbers(shape, 1e9, FACTS).steady_hours.mid

    assert hours(chips + more) <= hours(chips) * (1 + 1e-9)
