"""Optimizers: bytes in memory and checkpoints, time, and a memory check that knows its own uncertainty."""

from dataclasses import replace

import pytest

from launcher.answers import plan_screen, quote_screen
from launcher.catalog.load import load
from launcher.catalog.training import load_training
from launcher.model.enums import Method, Optimizer, Recompute, Stack
from launcher.model.errors import ImpossibleError
from launcher.planning import goodput, memory, throughput
from launcher.planning.optimizers import RECIPES
from launcher.planning.shape import TrainingShape
from tests.unit.pricing.conftest import price_over

FACTS = load_training()
CHIPS = load().accelerators


def job(chip="L40S", **changes):
    shape = TrainingShape(
        params_b=3.2127,
        active_params_b=3.2127,
        layers=28,
        hidden=3072,
        vocab=128_256,
        sequence_length=768,
        micro_batch=4,
        method=Method.FULL,
        stack=Stack.HUGGINGFACE,
        recompute=Recompute.FULL,
        accelerator=CHIPS[chip],
        chips=1,
        chips_per_node=1,
    )
    return replace(shape, **changes)


@pytest.mark.parametrize(
    "optimizer, state",
    [("adamw", 12.0), ("adamw-bf16", 4.0), ("adamw-8bit", 2.03), ("lion", 2.0), ("sgd", 0.0), ("muon", 8.0)],
)
def test_optimizer_state_bytes_count_in_memory_and_checkpoint(optimizer, state):
    shape = job(optimizer=Optimizer(optimizer))
    assert memory.state_bytes(shape) / 3.2127e9 == pytest.approx(4.0 + state, abs=0.02)
    assert goodput.checkpoint_bytes(shape, FACTS) / 3.2127e9 == pytest.approx(2.0 + state, abs=0.02)


def test_every_optimizer_recipe_has_source():
    assert set(RECIPES) == set(Optimizer)
    assert all(recipe.source and recipe.content and recipe.state >= 0 for recipe in RECIPES.values())


def test_full_fine_tuning_of_3b_on_one_l40s_fits_with_named_recipe():
    fitting = memory.fitting(job(), recompute_open=True)
    assert fitting.fits
    assert fitting.shape.optimizer is Optimizer.ADAMW_BF16
    assert "with optimizer adamw-bf16 it needs" in fitting.note


@pytest.mark.parametrize(
    "changes, fits",
    [
        ({"optimizer": Optimizer.ADAMW}, False),
        ({"method": Method.PRETRAIN}, False),
        ({"params_b": 30.0, "active_params_b": 30.0}, False),
        ({"optimizer": Optimizer.ADAMW_8BIT}, True),
    ],
)
def test_pinned_optimizer_is_not_replaced(changes, fits):
    fitting = memory.fitting(job(**changes), recompute_open=True)
    assert fitting.fits is fits
    assert fitting.note is None
    assert fitting.shape == job(**changes)


def test_open_recomputation_is_used_before_other_optimizer():
    shape = job(
        "A100-80GB", stack=Stack.FRAMEWORK, recompute=Recompute.SELECTIVE, sequence_length=16_384, micro_batch=1
    )
    assert not memory.fits(shape).fits
    fitting = memory.fitting(shape, recompute_open=True)
    assert (fitting.shape.recompute, fitting.shape.optimizer) == (Recompute.FULL, None)
    assert "with recompute full it needs" in fitting.note
    pinned = memory.fitting(shape, recompute_open=False)
    assert pinned.shape.recompute is Recompute.SELECTIVE


def test_memory_within_reserve_is_note_and_beyond_is_error():
    def with_params(billions):
        sizes = {"params_b": billions, "active_params_b": billions, "layers": 28, "hidden": 3072}
        return memory.fitting(job(optimizer=Optimizer.ADAMW, **sizes), recompute_open=False)

    least, most = 1.0, 4.0
    inside = [with_params(least + (most - least) * step / 60) for step in range(61)]
    notes = [fitting for fitting in inside if fitting.fits and fitting.note]
    assert notes
    assert all("kept for the runtime" in fitting.note for fitting in notes)
    assert inside[0].note is None
    assert not inside[-1].fits


@pytest.mark.parametrize("optimizer, slower", [("adamw-8bit", False), ("sgd", False), ("muon", True)])
def test_optimizer_time_counts_in_small_batches(optimizer, slower):
    small = job("H100", global_batch_tokens=2048, optimizer=Optimizer(optimizer))
    factor = throughput.optimizer_factor(small, 0.4)
    assert factor < 1.0 if slower else factor > 1.0
    large = replace(small, global_batch_tokens=4e6)
    assert abs(throughput.optimizer_factor(large, 0.4) - 1.0) < 0.01
    assert throughput.optimizer_factor(replace(small, optimizer=None), 0.4) == 1.0


PLAN = {
    "workload": {
        "train": {
            "model": "llama-3.2-3b",
            "method": "full",
            "hours": None,
            "tokens_b": 0.01,
            "stack": "huggingface",
            "sequence_length": 768,
            "micro_batch": 4,
        }
    },
    "target": {"instance_type": "g6e.xlarge", "nodes": 1, "region": "us-east-1"},
    "purchase": {"option": "on-demand"},
}


def test_quote_of_tight_job_warns_and_names_recipe():
    quote = price_over(PLAN).quote(1)
    (finding,) = [finding for finding in quote.findings if finding.code == "memory-tight"]
    assert finding.level == "warning"
    assert "optimizer adamw-bf16" in finding.message


def test_first_screens_of_plan_and_quote_warn_of_a_job_that_fits_only_with_a_leaner_recipe():
    """Otherwise the first sign is an out-of-memory error on a node that is billed."""
    priced = price_over(PLAN)
    screens = (plan_screen.page(priced, 120), quote_screen.page(priced.quote(1), 1, 120, priced))
    for screen in screens:
        assert "optimizer adamw-bf16 it needs" in " ".join(" ".join(screen).split())


def test_node_count_fitting_as_planned_preferred_to_leaner_recipe():
    train = {**PLAN["workload"]["train"], "model": "llama-3.1-8b", "stack": "framework"}
    target = {"instance_type": "p4d.24xlarge", "nodes": "any", "region": "us-east-1"}
    priced = price_over({**PLAN, "workload": {"train": train}, "target": target})
    rows = priced.quotes
    assert rows
    assert not [finding for row in rows for finding in row.findings if finding.code == "memory-tight"]


SMALL = {"model": "llama-3.1-8b", "method": "full", "hours": None, "tokens_b": 0.02}
SMALL_JOB = {
    "workload": {"train": SMALL},
    "target": {"instance_type": "any", "nodes": "any", "region": "us-west-2", "kind": "any"},
    "purchase": {"option": "on-demand"},
}


def test_plan_without_optimizer_leads_with_row_that_runs_as_planned_and_names_cheaper_one():
    """A trainer with the default optimizer runs out of memory on the cheaper row, after its start-up was paid."""
    priced = price_over(SMALL_JOB)
    assert not [quote for quote in priced.quotes if "memory-tight" in {finding.code for finding in quote.findings}]
    (note,) = [finding for finding in priced.findings if finding.code == "cheaper-with-leaner-optimizer"]
    named = price_over({**SMALL_JOB, "workload": {"train": {**SMALL, "optimizer": "adamw-bf16"}}})
    place, usd = named.candidates[0].place, named.candidates[0].usd
    assert place.instance_type in note.message
    assert f"${usd:,.2f} fits only with optimizer adamw-bf16" in note.message
    assert usd < priced.candidates[0].usd
    assert note.message in " ".join(" ".join(plan_screen.page(priced, 80)).split())


def test_row_that_needs_another_optimizer_is_kept_where_nothing_else_fits():
    priced = price_over(PLAN)
    assert [candidate.place.instance_type for candidate in priced.candidates] == ["g6e.xlarge"]
    assert not [finding for finding in priced.findings if finding.code == "cheaper-with-leaner-optimizer"]


@pytest.mark.parametrize(
    "changes, leaner",
    [
        ({"optimizer": Optimizer.ADAMW}, Optimizer.ADAMW_BF16),
        ({"optimizer": Optimizer.MUON, "params_b": 3.6, "active_params_b": 3.6}, Optimizer.ADAMW_BF16),
        ({"optimizer": Optimizer.ADAMW, "params_b": 40.0, "active_params_b": 40.0}, None),
        ({"optimizer": Optimizer.ADAMW, "method": Method.PRETRAIN}, None),
    ],
    ids=["adamw", "muon", "too large for any", "pretraining keeps its optimizer"],
)
def test_refusal_of_pinned_optimizer_names_one_that_fits(changes, leaner):
    assert memory.fitting_optimizer(job(**changes)) is leaner


@pytest.mark.parametrize("chip, size_b, leaner", [("L40S", 5.0, Optimizer.ADAMW_8BIT), ("Trainium1", 4.0, None)])
def test_8_bit_states_are_named_only_where_they_run(chip, size_b, leaner):
    shape = job(chip, optimizer=Optimizer.MUON, params_b=size_b, active_params_b=size_b)
    for optimizer, fits in ((Optimizer.ADAMW_BF16, False), (Optimizer.ADAMW_8BIT, True)):
        assert memory.fits(replace(shape, optimizer=optimizer)).fits is fits
    assert memory.fitting_optimizer(shape) is leaner


def test_refused_plan_says_which_optimizer_fits():
    train = {"model": "llama-3.2-3b", "method": "full", "tokens_b": 0.05, "optimizer": "adamw", "hours": None}
    target = {"kind": "ec2", "instance_type": "g6e.xlarge"}
    with pytest.raises(ImpossibleError) as refused:
        price_over({"workload": {"train": train}, "target": target})
    assert "2 nodes would be enough, and optimizer: adamw-bf16 fits" in refused.value.findings[0].message
