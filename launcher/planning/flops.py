"""Floating-point operations per token in training.

Sources: Kaplan 2020: J. Kaplan et al., "Scaling Laws for Neural Language Models", arXiv:2001.08361, section 2.1: 2N
    in the forward pass, 4N in the backward pass. PaLM 2022: A. Chowdhery et al., "PaLM: Scaling Language Modeling
    with Pathways", arXiv:2204.02311, appendix B: 6N + 12 L h s per token; the definition of model FLOPs utilisation.
    Megatron 2021: D. Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using
    Megatron-LM", arXiv:2104.04473, section 5.1: full recomputation adds a forward pass.

Attention is counted over the whole square of the sequence, as PaLM and nearly every published figure does. A causal
kernel skips half of it; figures that count half (6 L h s) are converted before they are compared.
"""

from launcher.model.enums import Recompute
from launcher.planning.shape import TrainingShape

TRAINED = 6.0
"""FLOPs per active parameter and token: 2 forward, 2 back to the inputs, 2 back to the weights (Kaplan 2020)."""
REFERENCE = 2.0
"""FLOPs of the forward pass of a frozen reference model."""
FROZEN = 4.0
"""FLOPs if the base weights are frozen (LoRA, QLoRA): their own gradient is left out."""
RECOMPUTED = 2.0
"""The extra FLOPs of recomputing the full forward pass (Megatron 2021)."""
ATTENTION = 12.0
"""FLOPs per layer, hidden unit and position of the sequence (PaLM 2022, appendix B)."""
ATTENTION_FORWARD = 4.0


def per_token(shape: TrainingShape) -> float:
    """Model FLOPs of one token: the FLOPs that the model's arithmetic needs, without recomputation.

    Args:
        shape: the job; active parameters count, layers x hidden x sequence for attention.

    Returns:
        FLOPs per token, 6N + 12 L h s (4N + 12 L h s for LoRA and QLoRA); 2N + 4 L h s more with a reference model.

    >>> from launcher.model.instance_type import Accelerator
    >>> h100 = Accelerator(
    ...     name="H100",
    ...     family="nvidia",
    ...     peak_bf16_tflops=989,
    ...     peak_fp8_tflops=1979,
    ...     memory_gib=80,
    ...     memory_gb_per_s=3350,
    ...     source="",
    ... )
    >>> llama = TrainingShape(
    ...     params_b=6.74, active_params_b=6.74, layers=32, hidden=4096, accelerator=h100, chips=8, chips_per_node=8
    ... )
    >>> f"6 x 6.74e9 + 12 x 32 x 4096 x 4096 = {per_token(llama):.4g}"
    '6 x 6.74e9 + 12 x 32 x 4096 x 4096 = 4.688e+10'
    """
    per_parameter = FROZEN if shape.trains_adapters else TRAINED
    model = per_parameter * shape.active_params_b * 1e9 + attention_per_token(shape)
    return model + _reference_per_token(shape)


def _reference_per_token(shape: TrainingShape) -> float:
    """The extra FLOPs of a frozen reference model: one forward pass, 2N + 4 L h s; 0 without one."""
    if not shape.reference_model:
        return 0.0
    return REFERENCE * shape.active_params_b * 1e9 + ATTENTION_FORWARD * shape.attended_positions


def attention_per_token(shape: TrainingShape) -> float:
    """The part of `per_token` that grows with the sequence: 12 L h s."""
    return ATTENTION * shape.attended_positions


def hardware_per_token(shape: TrainingShape) -> float:
    """FLOPs that the chips execute for one token: with full recomputation one more forward pass, 2N + 4 L h s."""
    model = per_token(shape)
    if shape.recompute is not Recompute.FULL:
        return model
    again = ATTENTION_FORWARD * shape.attended_positions
    return model + RECOMPUTED * shape.active_params_b * 1e9 + again
