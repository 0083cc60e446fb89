"""Experts over several AWS nodes: the exchange over EFA, its open layout, and instances without a published run."""

from dataclasses import replace

import pytest

from launcher.catalog.load import load
from launcher.catalog.training import load_training
from launcher.model.enums import Method, Precision, Stack
from launcher.model.workload import TrainingWorkload
from launcher.planning import duration, utilisation
from launcher.planning.questions import open_answers
from launcher.planning.shape import TrainingShape
from launcher.planning.work import Estimator
from tests import plans

FACTS = load_training()
CATALOG = load()
CHIPS = CATALOG.accelerators


def mixture(chip="H100", nodes=8, **changes):
    shape = TrainingShape(
        params_b=30.53,
        active_params_b=3.35,
        layers=48,
        hidden=2048,
        top_k=8,
        global_batch_tokens=1_048_576,
        method=Method.PRETRAIN,
        stack=Stack.TUNED,
        efa=nodes > 1,
        instance_family="p5",
        accelerator=CHIPS[chip],
        chips=8 * nodes,
        chips_per_node=8,
    )
    return replace(shape, **changes)


def mid(shape):
    return utilisation.estimate(shape, FACTS).mid


def width(shape):
    estimate = utilisation.estimate(shape, FACTS)
    return estimate.high / estimate.low


@pytest.mark.parametrize(
    "chip, model, nodes, published",
    [
        ("H100", {}, 8, 2_606),
        ("B300", {"params_b": 235.09, "active_params_b": 22.19, "layers": 94, "hidden": 4096}, 8, 1_555),
        ("B300", {"params_b": 671.0, "active_params_b": 37.0, "layers": 61, "hidden": 7168}, 32, 1_067),
    ],
)
def test_expert_parallel_rate_over_efa_is_near_published(chip, model, nodes, published):
    shape = mixture(chip, nodes, expert_parallel=32, **model)
    estimate = duration.numbers(shape, 1e9, FACTS).tokens_per_s.mid / shape.chips
    assert estimate == pytest.approx(published, rel=0.5)


def test_experts_within_node_are_faster_than_across_nodes():
    assert mid(mixture(expert_parallel=8)) > 1.5 * mid(mixture(expert_parallel=32))
    assert mid(mixture(nodes=1)) == mid(mixture(nodes=1, expert_parallel=32))


@pytest.mark.parametrize("nodes", [2, 4, 16, 64])
def test_more_mixture_nodes_are_never_slower_together(nodes):
    one, many = mixture(nodes=1), mixture(nodes=nodes)
    assert mid(many) * many.chips >= mid(one) * one.chips


@pytest.mark.parametrize("chip", ["A100-80GB", "H100", "B300"])
def test_small_experts_are_slower_than_large_experts_of_equal_arithmetic(chip):
    small = mixture(chip, nodes=1, params_b=46.7, active_params_b=12.9, layers=48, hidden=4096, top_k=8)
    large = replace(small, layers=32, top_k=2)
    assert mid(large) > 1.04 * mid(replace(small, layers=32)) > 1.04**2 * mid(replace(small, top_k=16))


def test_layers_without_experts_copy_no_tokens_to_experts():
    hybrid = mixture(nodes=1, params_b=31.6, active_params_b=3.6, layers=52, hidden=2688, top_k=6)
    assert mid(replace(hybrid, expert_layers=23)) > 1.05 * mid(hybrid)
    assert mid(replace(hybrid, expert_layers=52)) == mid(hybrid)


@pytest.mark.parametrize(
    "model, layers",
    [
        ("nemotron-3-nano-30b-a3b", 23),
        ("llama-3.1-8b", None),
        ({"params_b": 31.6, "active_params_b": 3.6, "layers": 52}, None),
    ],
)
def test_expert_layers_of_a_known_model_reach_the_estimate(model, layers):
    workload = {"train": {"model": model, "tokens_b": 1, "sequence_length": 4096}}
    request = plans.request_of({"slipway": 1, "name": "mixture", "workload": workload})
    estimator = Estimator(request=request, catalog=CATALOG, facts=FACTS)
    facts = CATALOG.instance_types["p5.48xlarge"]
    assert estimator.shape(request.workload.train, facts, 1).expert_layers == layers


def test_fp8_brings_mixtures_less_on_chips_without_block_scaling():
    gains = [
        mid(mixture(chip, nodes=1, precision=Precision.FP8)) / mid(mixture(chip, nodes=1)) for chip in ("H100", "B200")
    ]
    assert 1.1 < gains[0] < 0.9 * gains[1] < 2.0


def test_open_expert_layout_range_spans_both_and_is_asked():
    opened, within, over = mixture(), mixture(expert_parallel=8), mixture(expert_parallel=32)
    assert width(opened) > 1.3 * width(over)
    assert utilisation.estimate(opened, FACTS).high > 0.9 * mid(within)
    answers = {answer.key: answer.train for answer in open_answers(TrainingWorkload(), opened)}
    assert answers["expert_parallel"].expert_parallel == 32
    names = {line.name for line in duration.estimate(opened, 1e11, FACTS).assumptions}
    assert "expert parallel" in names


@pytest.mark.parametrize("family, known", [("p5", True), ("g5", False), (None, True)])
def test_range_is_wider_on_instances_without_published_run(family, known):
    dense = replace(mixture(), params_b=8.0, active_params_b=8.0, stack=Stack.FRAMEWORK, instance_family=family)
    seen = replace(dense, instance_family="p5")
    assert (width(dense) == width(seen)) is known
    named = any(line.name == "instance" for line in duration.estimate(dense, 1e10, FACTS).assumptions)
    assert named is not known
