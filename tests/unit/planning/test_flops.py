import dataclasses

import pytest

from launcher.catalog.training import load_hardware
from launcher.model.enums import Method, Recompute
from launcher.planning import flops
from launcher.planning.shape import TrainingShape

H100 = load_hardware()["H100-SXM"][0]
LLAMA_8B = TrainingShape(
    params_b=8.030261248,
    active_params_b=8.030261248,
    layers=32,
    hidden=4096,
    sequence_length=8192,
    accelerator=H100,
    chips=8,
    chips_per_node=8,
)


def test_llama_8b_flops_equal_weights_plus_attention():
    # 6 x 8.030261248e9 + 12 x 32 x 4096 x 8192
    assert flops.per_token(LLAMA_8B) == pytest.approx(48_181_567_488 + 12_884_901_888)


def test_adapters_omit_gradient_of_frozen_weights():
    for method in (Method.LORA, Method.QLORA):
        lora = dataclasses.replace(LLAMA_8B, method=method)
        assert flops.per_token(LLAMA_8B) - flops.per_token(lora) == pytest.approx(2 * 8.030261248e9)


def test_full_recomputation_adds_forward_pass_only_to_hardware_flops():
    full = dataclasses.replace(LLAMA_8B, recompute=Recompute.FULL)
    assert flops.per_token(full) == flops.per_token(LLAMA_8B)
    assert flops.hardware_per_token(full) == pytest.approx(flops.per_token(full) * 4 / 3)


def test_selective_recomputation_is_not_counted():
    assert flops.hardware_per_token(LLAMA_8B) == flops.per_token(LLAMA_8B)


def test_only_active_parameters_count():
    # DeepSeek-V3: 37 of 671 billion active, 61 layers of 7168
    moe = dataclasses.replace(
        LLAMA_8B, params_b=671.0, active_params_b=37.0, layers=61, hidden=7168, sequence_length=4096
    )
    assert moe.moe
    assert flops.per_token(moe) == pytest.approx(6 * 37e9 + 12 * 61 * 7168 * 4096)


@pytest.mark.parametrize(
    "params_b, layers, hidden", [(13.0, 40, 5120), (69.0, 80, 8192), (405.9, 126, 16384), (1.3, 24, 2048)]
)
def test_unknown_dimensions_estimated_within_a_fifth_of_published(params_b, layers, hidden):
    guessed = dataclasses.replace(LLAMA_8B, params_b=params_b, active_params_b=params_b, layers=None, hidden=None)
    assert guessed.attended_positions / guessed.sequence_length == pytest.approx(layers * hidden, rel=0.2)


@pytest.mark.parametrize(
    "wrong",
    [
        {"params_b": 0.0, "active_params_b": 0.0},
        {"params_b": float("inf"), "active_params_b": 1.0},
        {"params_b": float("nan"), "active_params_b": 1.0},
        {"active_params_b": 9.0},
        {"chips": 0},
        {"sequence_length": 0},
        {"global_batch_tokens": 0.0},
        {"measured_tokens_per_s": float("inf")},
    ],
)
def test_invalid_model_size_refused(wrong):
    with pytest.raises(ValueError, match=r"finite|above"):
        dataclasses.replace(LLAMA_8B, **wrong)
