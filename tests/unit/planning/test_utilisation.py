import dataclasses
import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.accuracy import outcome
from benchmarks.training_rows import read_rows
from launcher.catalog.training import JUDGED_RUNS, facts_from, load_training
from launcher.model.enums import Method, Precision, Recompute, Stack
from launcher.model.errors import SlipwayError
from launcher.model.instance_type import Accelerator
from launcher.planning import duration, utilisation
from launcher.planning.shape import TrainingShape
from tests.checks import some
from tests.measured_runs import HARDWARE, job_shape

FACTS = load_training()
UNHEARD_OF = Accelerator(
    name="Quark 1",
    family="nvidia",
    peak_bf16_tflops=500.0,
    peak_fp8_tflops=None,
    memory_gib=64.0,
    memory_gb_per_s=2500.0,
    source="a test",
)
CHIPS = (*(chip for chip, _ in HARDWARE.values()), UNHEARD_OF)


@st.composite
def shapes(draw):
    """Any valid job, likely or not."""
    params_b = draw(st.floats(0.01, 5000.0))
    layers, hidden = draw(st.one_of(st.just((None, None)), st.tuples(st.integers(1, 200), st.integers(64, 32_768))))
    return TrainingShape(
        params_b=params_b,
        active_params_b=params_b * draw(st.sampled_from([1.0, 1.0, 0.3, 0.05])),
        layers=layers,
        hidden=hidden,
        sequence_length=draw(st.integers(1, 1_048_576)),
        global_batch_tokens=draw(st.one_of(st.none(), st.floats(1.0, 1e9))),
        precision=draw(st.sampled_from(Precision)),
        recompute=draw(st.sampled_from(Recompute)),
        method=draw(st.sampled_from(Method)),
        stack=draw(st.sampled_from(Stack)),
        accelerator=draw(st.sampled_from(CHIPS)),
        chips=draw(st.integers(1, 20_000)),
        chips_per_node=draw(st.sampled_from([1, 4, 8, 16])),
        tensor_parallel=draw(st.sampled_from([None, 1, 8])),
        measured_tokens_per_s=draw(st.one_of(st.none(), st.none(), st.floats(0.1, 1e7))),
    )


def mid(label="H100-SXM", **changes):
    return utilisation.estimate(job_shape(label, **changes), FACTS).mid


@given(shapes())
def test_every_estimate_is_finite_and_ordered(shape):
    estimate = utilisation.estimate(shape, FACTS)
    assert 0.0 < estimate.low <= estimate.mid <= estimate.high < 2.0
    assert math.isfinite(estimate.scale)


@given(shapes(), st.integers(1, 20_000))
def test_more_chips_never_do_less_work_together(shape, more):
    """At a constant batch the rate of all chips together does not fall, at no end of the range."""
    few = utilisation.estimate(shape, FACTS)
    many = utilisation.estimate(dataclasses.replace(shape, chips=shape.chips + more), FACTS)
    for less, greater in some(zip(few[:3], many[:3], strict=True)):
        assert greater * (shape.chips + more) >= less * shape.chips * (1 - 1e-12)


def test_estimate_is_near_published_utilisation():
    # torchtitan: 6,667 tokens/s a chip on 8 H100, 16 sequences of 8192: 41 % (README of the facts: MFU with attention)
    assert mid(chips=8, sequence_length=8192, global_batch_tokens=131_072) == pytest.approx(0.412, rel=0.25)
    # MLPerf 4.1, GPT-3 175B in FP8 on 256 H100: 89 %
    mlperf = mid(
        params_b=175.0,
        active_params_b=175.0,
        layers=96,
        hidden=12288,
        sequence_length=2048,
        chips=256,
        precision=Precision.FP8,
        stack=Stack.TUNED,
        global_batch_tokens=4_194_304,
    )
    assert mlperf == pytest.approx(0.89, rel=0.25)


@pytest.mark.parametrize(
    "slower, faster",
    [
        ({"stack": Stack.UNTUNED}, {"stack": Stack.FRAMEWORK}),
        ({"stack": Stack.FRAMEWORK}, {"stack": Stack.TUNED}),
        ({"stack": Stack.HUGGINGFACE}, {"stack": Stack.FRAMEWORK}),
        ({"stack": Stack.HUGGINGFACE, "micro_batch": 1, "sequence_length": 512}, {"stack": Stack.HUGGINGFACE}),
        ({"method": Method.QLORA, "micro_batch": 1}, {"method": Method.QLORA, "micro_batch": 8}),
        ({"precision": Precision.BF16}, {"precision": Precision.FP8}),
        ({"precision": Precision.FP8}, {"precision": Precision.FP8, "stack": Stack.TUNED}),
        ({"recompute": Recompute.FULL}, {"recompute": Recompute.SELECTIVE}),
        ({"params_b": 0.1, "active_params_b": 0.1}, {}),
        ({"params_b": 64.0}, {}),
        ({"global_batch_tokens": 65_536.0}, {"global_batch_tokens": 4_194_304.0}),
        ({"method": Method.QLORA}, {"method": Method.LORA}),
    ],
)
def test_faster_property_gives_higher_utilisation(slower, faster):
    assert mid(**slower) < mid(**faster)


def test_tuned_stack_is_never_slower_than_framework():
    for label in some(HARDWARE):
        for precision in Precision:
            assert mid(label, stack=Stack.TUNED, precision=precision) >= mid(label, precision=precision)


@pytest.mark.parametrize("stack", [Stack.FRAMEWORK, Stack.HUGGINGFACE])
def test_tensor_parallel_costs_time_and_widens_range_on_stacks_of_pytorch(stack):
    plain, cut = ({"stack": stack, "tensor_parallel": degree} for degree in (1, 4))
    assert mid(**plain) == mid(stack=stack)
    assert mid(**cut) == pytest.approx(mid(**plain) / 1.4)
    assert width("H100-SXM", **cut) > width("H100-SXM", **plain)


@pytest.mark.parametrize("label,stack", [("H100-SXM", Stack.TUNED), ("Trainium1", Stack.FRAMEWORK)])
def test_tensor_parallel_of_megatron_and_neuron_is_in_the_fit(label, stack):
    assert mid(label, stack=stack, tensor_parallel=8) == mid(label, stack=stack)


def test_explanation_names_the_cost_of_tensor_parallel():
    shape = dataclasses.replace(job_shape("H100-SXM", chips=8), tensor_parallel=2)
    facts = load_training()
    steps = [
        step
        for line in duration.assumptions(shape, 2e9, facts, duration.estimate(shape, 2e9, facts))
        if line.name == "model FLOPs utilisation"
        for step in line.steps
    ]
    assert any(step == "times 0.714: matrices shared by 2 chips, which wait in every layer" for step in steps)
    factors = [
        float(re.search(r"(?:start at|times) ([0-9.]+):", step)[1])
        for step in steps
        if step.startswith(("start", "times"))
    ]
    assert math.prod(factors) == pytest.approx(utilisation.estimate(shape, facts).mid, rel=5e-3)


def test_strong_scaling_costs_more_on_slow_network():
    # InternEvo, 7B on 1,024 A100: a batch of 4 M instead of 16 M tokens runs at 0.65 of the rate
    ratios = {
        label: mid(label, chips=1024, global_batch_tokens=4_194_304.0)
        / mid(label, chips=1024, global_batch_tokens=16_777_216.0)
        for label in ("A100-80GB", "H100-SXM")
    }
    assert 0.5 < ratios["A100-80GB"] < 0.85
    assert ratios["A100-80GB"] < ratios["H100-SXM"]


def width(label, **changes):
    estimate = utilisation.estimate(job_shape(label, **changes), FACTS)
    return estimate.high / estimate.low


def test_range_is_wide_with_few_data():
    well_known = width("H100-SXM", method=Method.PRETRAIN)
    assert width("Trainium2") > 1.15 * well_known
    assert width("B200") > 1.15 * well_known
    assert width("A100-80GB", method=Method.QLORA) > well_known
    lora = {"method": Method.LORA, "stack": Stack.HUGGINGFACE, "micro_batch": 1}
    assert width("A100-80GB", **lora) > well_known
    assert width("A100-80GB", **lora, stack_known=False) > 1.25 * width("A100-80GB", **lora)
    short = lora | {"method": Method.QLORA, "sequence_length": 512}
    assert width("A100-80GB", **short | {"micro_batch": None}) > 1.2 * width("A100-80GB", **short)
    for unknown in ("A10G", "Trainium3"):
        assert width(unknown) > 1.3 * well_known
    for few in ("L40S", "B300"):
        assert width(few) > 1.1 * well_known


def test_unknown_chip_estimated_from_family_and_balance():
    chip = job_shape(accelerator=UNHEARD_OF)
    estimate = utilisation.estimate(chip, FACTS)
    assert utilisation.chip_traits(UNHEARD_OF, FACTS) is utilisation.UNKNOWN_CHIP
    assert 0.2 < estimate.mid < 0.7
    assert estimate.high / estimate.low > 1.2 * width("H100-SXM")


@pytest.mark.parametrize(
    "name, known_as",
    [
        ("A100-40GB", "A100"),
        ("NVIDIA H200", "H200"),
        ("GB200", "GB200"),
        ("L40S", "L40S"),
        ("L4", "L4"),
        ("Trainium", "Trainium1"),
    ],
)
def test_chip_names_resolve_to_known_chip(name, known_as):
    assert utilisation.chip_traits(dataclasses.replace(UNHEARD_OF, name=name), FACTS).name == known_as


def test_fp8_on_chip_without_fp8_equals_bf16_with_wider_range():
    assert mid("A100-80GB", precision=Precision.FP8) == mid("A100-80GB")
    assert width("A100-80GB", precision=Precision.FP8) > width("A100-80GB")


def fit(**changes):
    return {
        "coefficients": dict(FACTS.coefficients) | changes,
        "run_framework": 0.1,
        "run_tuned": 0.1,
        "rows_by_chip": {},
        "rows_by_instance": {},
        "spreads": {},
        "run_scale": 0.1,
        "quantile": 1.0,
        "fitted_on": "2026-11-20",
        "fitted_rows": 1,
        "fitted_families": 1,
    }


@pytest.mark.parametrize("wrong", [{"tuned": -0.1}, {"step": 0.9}, {"fp8": math.nan}])
def test_fit_with_invalid_term_refused(wrong):
    with pytest.raises(SlipwayError, match=next(iter(wrong))):
        facts_from(fit(**wrong))


@pytest.mark.parametrize("method, few", [(Method.PRETRAIN, False), (Method.FULL, False), (Method.QLORA, True)])
def test_few_sources_of_method_widen_range(method, few):
    shape = job_shape(params_b=8.0, chips=64, method=method, stack=Stack.TUNED)
    sources = utilisation.few_sources(shape, FACTS)
    assert (sources is not None) is few
    if sources is not None:
        assert sources == FACTS.spreads["quantised"].sources < utilisation.FEW_SOURCES
        assert utilisation.log_scale(shape, FACTS) >= FACTS.spreads["quantised"].scale


@pytest.mark.parametrize("stack", list(Stack))
def test_range_of_qlora_is_at_least_that_of_lora(stack):
    """QLoRA has fewer rows and sources than LoRA, of which it is a kind."""
    lora, qlora = (
        job_shape(params_b=8.0, chips=8, method=method, stack=stack, micro_batch=1)
        for method in (Method.LORA, Method.QLORA)
    )
    assert utilisation.log_scale(qlora, FACTS) >= utilisation.log_scale(lora, FACTS)


@pytest.mark.parametrize("chip", ["Trainium1", "Trainium2"])
@pytest.mark.parametrize("method", [Method.LORA, Method.QLORA])
def test_range_of_adapters_on_neuron_reaches_the_one_published_run(chip, method):
    """It takes 10 to 21 times the estimated time."""
    shape = job_shape(params_b=8.0, chips=16, method=method, stack=Stack.FRAMEWORK, accelerator=HARDWARE[chip][0])
    assert utilisation.few_sources(shape, FACTS) == 1
    estimate = utilisation.estimate(shape, FACTS)
    assert estimate.mid / estimate.low > 14


def test_range_of_adapters_on_neuron_holds_most_rows_of_their_one_source():
    rows = [row for row in read_rows(JUDGED_RUNS) if utilisation.on_neuron_adapters(row.shape)]
    assert {row.family for row in rows} == {"trn2-qwen35"}
    held = [outcome(row, FACTS).covered for row in rows]
    assert sum(held) == 3
    assert len(held) == 4


@pytest.mark.parametrize("method", [Method.PRETRAIN, Method.FULL])
def test_range_of_other_jobs_on_neuron_is_not_that_of_adapters(method):
    shape = job_shape(params_b=8.0, chips=16, method=method, accelerator=HARDWARE["Trainium2"][0])
    assert utilisation.few_sources(shape, FACTS) == FACTS.spreads["neuron"].sources
    assert utilisation.log_scale(shape, FACTS) == utilisation.log_scale(shape, FACTS, later=False)


def test_sources_found_after_fit_widen_range_of_their_class():
    trainer = job_shape(params_b=8.0, chips=8, method=Method.LORA, stack=Stack.HUGGINGFACE)
    fitted_scale = utilisation.log_scale(trainer, FACTS, later=False)
    newer = FACTS.constants["later_sources_huggingface_scale"].mid
    assert utilisation.log_scale(trainer, FACTS) == pytest.approx(math.hypot(fitted_scale, newer))
    tuned = job_shape(params_b=8.0, chips=8, method=Method.LORA, stack=Stack.TUNED)
    assert utilisation.log_scale(tuned, FACTS) == utilisation.log_scale(tuned, FACTS, later=False)


def test_routing_slows_no_attention():
    def slower(sequence_length):
        """How much slower a mixture runs than a dense model of its active parameters."""
        changes = {"layers": 48, "hidden": 2048, "sequence_length": sequence_length, "chips": 16}
        mixture = mid(params_b=30.5, active_params_b=3.3, **changes)
        return mixture / mid(params_b=3.3, active_params_b=3.3, **changes)

    assert slower(4096) < slower(131_072) < slower(1_048_576)
