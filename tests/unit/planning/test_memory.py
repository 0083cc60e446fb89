import dataclasses
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.catalog.training import load_hardware
from launcher.model.enums import Method, Recompute
from launcher.planning import memory
from launcher.planning.shape import TrainingShape

HARDWARE = load_hardware()
DIMENSIONS = {
    "llama-2-7b": (6.738, 32, 4096, 32_000),
    "llama-3.1-8b": (8.03, 32, 4096, 128_256),
    "llama-2-70b": (68.98, 80, 8192, 32_000),
    "llama-3.1-70b": (70.55, 80, 8192, 128_256),
    "llama-3.1-405b": (405.85, 126, 16_384, 128_256),
    "mpt-30b": (29.98, 48, 7168, 50_368),
    "falcon-7b": (7.22, 32, 4544, 65_024),
}


def job(model, label, chips, *, per_node=None, **changes):
    params_b, layers, hidden, vocab = DIMENSIONS[model]
    chip, per_machine = HARDWARE[label]
    shape = TrainingShape(
        params_b=params_b,
        active_params_b=params_b,
        layers=layers,
        hidden=hidden,
        vocab=vocab,
        accelerator=chip,
        chips=chips,
        chips_per_node=per_node or per_machine,
    )
    return dataclasses.replace(shape, **changes)


@pytest.mark.parametrize(
    "shape, fits",
    [
        (job("llama-3.1-8b", "H100-SXM", 8, sequence_length=8192), True),
        (job("llama-3.1-70b", "H100-SXM", 8, sequence_length=8192), False),
        (job("llama-3.1-405b", "H100-SXM", 64, sequence_length=8192), False),
        (job("llama-2-7b", "Trainium1", 16), True),
        (job("llama-2-7b", "Trainium1", 1, per_node=1), False),
        (job("llama-3.1-70b", "A100-40GB", 8, method=Method.QLORA), True),
        (job("llama-3.1-70b", "A100-40GB", 8, method=Method.FULL), False),
        # published runs that did fit: NeMo 24.07 (16 H100), MLPerf 4.0 LoRA (8 H100), Megatron-Bridge (128 B200)
        (job("llama-2-70b", "H100-SXM", 16), True),
        (job("llama-2-70b", "H100-SXM", 8, sequence_length=8192, method=Method.LORA), True),
        (job("llama-3.1-405b", "B200", 128, sequence_length=8192), True),
        # llm-foundry: MPT-30B on 8 H100 with recomputation at 8,192 tokens
        (job("mpt-30b", "H100-SXM", 8, sequence_length=8192, recompute=Recompute.FULL), True),
        # litgpt: LoRA of a 7 B model on one A10G at 512 tokens
        (job("falcon-7b", "A10G", 1, per_node=1, sequence_length=512, method=Method.LORA), True),
    ],
)
def test_job_fits_memory_as_expected(shape, fits):
    assert memory.fits(shape).fits is fits


def test_states_of_7b_model_are_16_bytes_per_parameter():
    fits = memory.fits(job("llama-2-7b", "H100-SXM", 8))
    assert fits.weights + fits.gradients + fits.optimizer == pytest.approx(16 * 6.738e9 / 8)


def test_activations_equal_korthikanti_formula():
    fits = memory.fits(job("llama-3.1-8b", "H100-SXM", 8, sequence_length=8192))
    assert fits.group == 1
    assert fits.activations == pytest.approx(34 * 32 * 4096 * 8192)
    recomputed = memory.fits(job("llama-3.1-8b", "H100-SXM", 8, sequence_length=8192, recompute=Recompute.FULL))
    assert recomputed.activations == pytest.approx((2 * 32 + 34) * 4096 * 8192)


def test_long_sequence_is_split_over_more_chips():
    short, long = (memory.fits(job("llama-3.1-8b", "H100-SXM", 8, sequence_length=length)) for length in (4096, 32_768))
    assert short.group < long.group <= 8
    assert long.fits


def test_adapters_and_quantisation_reduce_states():
    parts = [
        memory.fits(job("llama-3.1-70b", "A100-80GB", 8, method=method))
        for method in (Method.FULL, Method.LORA, Method.QLORA)
    ]
    states = [part.weights + part.gradients + part.optimizer for part in parts]
    assert states == sorted(states, reverse=True)
    assert states[2] < 0.4 * states[1]


def test_minimum_chips_of_known_models():
    assert memory.min_chips(job("llama-3.1-8b", "H100-SXM", 8, sequence_length=8192)) == 8
    assert 16 <= memory.min_chips(job("llama-3.1-70b", "H100-SXM", 8, sequence_length=8192)) <= 32
    assert 64 < memory.min_chips(job("llama-3.1-405b", "H100-SXM", 8, sequence_length=8192)) <= 256


def test_sequence_above_chip_memory_fits_no_chip_count():
    endless = job("llama-3.1-405b", "L4", 8, sequence_length=16_777_216)
    assert memory.min_chips(endless) is None
    assert not memory.fits(dataclasses.replace(endless, chips=4096)).fits


def test_memory_steps_show_sum():
    fits = memory.fits(job("llama-3.1-8b", "H100-SXM", 8))
    assert f"together {fits.per_chip_gib:.2f} of {fits.limit_gib:.2f} GiB" in fits.steps[-1]


@st.composite
def open_shapes(draw):
    """A job on one node, of any size."""
    params_b = draw(st.floats(0.05, 2000.0))
    per_node = draw(st.sampled_from([1, 4, 8, 16]))
    return TrainingShape(
        params_b=params_b,
        active_params_b=params_b,
        sequence_length=draw(st.integers(1, 262_144)),
        method=draw(st.sampled_from(Method)),
        recompute=draw(st.sampled_from(Recompute)),
        accelerator=HARDWARE[draw(st.sampled_from(sorted(HARDWARE)))][0],
        chips=per_node,
        chips_per_node=per_node,
    )


@given(open_shapes())
def test_minimum_chips_fit_and_one_node_less_does_not(shape):
    least, per_node = memory.min_chips(shape), shape.chips_per_node
    if least is None:
        assert not memory.fits(dataclasses.replace(shape, chips=100_000)).fits
        return
    assert least % per_node == 0
    fits = memory.fits(dataclasses.replace(shape, chips=least))
    assert fits.fits
    assert math.isfinite(fits.per_chip_gib)
    if least > per_node:
        assert not memory.fits(dataclasses.replace(shape, chips=least - per_node)).fits
