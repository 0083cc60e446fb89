"""Model FLOPs utilisation (MFU): what share of the chips' bf16 peak a job reaches, with its range.

log(MFU) is a sum of terms, each a property of the plan times a coefficient fitted to published runs
(`benchmarks/fit_training.py`; the rows and the fit ship in `launcher/catalog/data/training`). There is no term for a
model's name or a source. Every coefficient but the first is held at zero or above, so that each term has the sign it
is named for, and that of `step` at one or below: then the tokens per second of all chips together never fall when
chips are added.

The range reaches `quantile_low` and `quantile_high` spreads below and above. A spread is the scale of the errors on
sources that were left out of the fit, by class of job, and is widened where few rows carry the figure. It depends on
nothing that changes with the number of chips.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

from launcher.model.enums import Method, Precision, Stack
from launcher.model.instance_type import Accelerator
from launcher.model.training import ChipTraits, TrainingFacts
from launcher.planning import flops, memory
from launcher.planning.shape import TrainingShape

TERMS = (
    "base",
    "balance",
    "card",
    "neuron",
    "fp8",
    "fp8_tuned",
    "tuned",
    "moe",
    "moe_active",
    "moe_peak",
    "adapters",
    "quantised",
    "recompute",
    "attention",
    "attention_fp8",
    "small",
    "step",
    "offload",
)
"""The terms of log(MFU); `MEANINGS` says each in words."""
MEANINGS: Mapping[str, str] = {
    "base": "a dense model in bf16 with ordinary software on a chip with the balance of an A100 80GB",
    "balance": "peak FLOPs per byte of memory bandwidth, against 153 of an A100 80GB",
    "card": "a power-capped PCIe card made for inference and graphics",
    "neuron": "Trainium and its compiler",
    "fp8": "FP8 matrix products, counted against the bf16 peak",
    "fp8_tuned": "FP8 with a tuned stack (fused kernels, overlapped communication)",
    "tuned": "bf16 with a tuned stack on chips of the FP8 generations",
    "moe": "mixture of experts: routing and small matrix products",
    "moe_active": "size of what a token passes through in a mixture of experts, against 17 billion",
    "moe_peak": "routing falls behind as the peak grows beyond the 989 TFLOP/s of an H100",
    "adapters": "LoRA beside frozen weights",
    "quantised": "QLoRA: weights are expanded from 4 bits for every product",
    "recompute": "hardware FLOPs over model FLOPs with full recomputation",
    "attention": "share of the FLOPs in attention, where kernels are slower than matrix products",
    "attention_fp8": "the same with FP8: attention stays in bf16",
    "small": "small models: kernels too short to fill the chip",
    "step": "tokens a chip works on in one step, against the network between machines",
    "offload": "states larger than all chips' memory: offloaded to the host",
}
BALANCE_REFERENCE = 153.0
"""FLOP per byte of an A100 80GB: 312 TFLOP/s over 2,039 GB/s (NVIDIA data sheet)."""
SMALL_B = 0.3
"""Billions of parameters at which the `small` term is log 2; chosen with the form of the fit."""
MOE_ACTIVE_B = (1.0, 17.0, 60.0)
"""Least, reference and most active parameters (billions) of the `moe_active` term."""
MOE_PEAK_TFLOPS = 989.0
DEFAULT_BATCH_TOKENS = 4.0e6
"""Batch assumed when the plan leaves it open: 4 M tokens (Llama 2, arXiv:2307.09288, section 2.2; PaLM and OPT use 2
to 4 M) ..."""
DEFAULT_STEP_TOKENS = 8192.0
"""... or 8,192 tokens a chip and step, whichever is more: whoever adds chips enlarges the batch, up to what published
runs of that model size used."""
STEP_TOKENS = 2500.0
"""Tokens per chip and step at which the `step` term is log 2 on an A100 with 50 Gbit/s; chosen with the form of the
fit."""
STEP_PEAK_TFLOPS = 312.0
STEP_GBPS = 50.0
STEP_PARAMS_B = 10.0
STEP_PARAMS_POWER = 0.2
"""Above 10 billion parameters a model is split over chips, which then share a step's tokens; power chosen with the
fit."""
UNKNOWN_CHIP = ChipTraits(name="unknown", match="", gbps_per_chip=50.0, inference_card=False, rows={}, source="")
THIN_ROWS = 3.0
"""Rows on a chip and class of job that halve the variance added for thin data; judgement."""
OTHER_CLASS_ROW = 0.125
"""What a row of another class on the same chip counts; judgement."""
FLOOR, CEILING = 0.002, 0.98
"""No estimate leaves this band; the ceiling is times two where FP8 counts, whose peak is twice that of bf16."""


class Mfu(NamedTuple):
    """Utilisation as fractions, low <= mid <= high, and the scale of its spread."""

    low: float
    mid: float
    high: float
    scale: float


def chip_traits(accelerator: Accelerator, facts: TrainingFacts) -> ChipTraits:
    """What is known of a chip: the first entry whose `match` is in its lower-case name, or the unknown chip.

    A chip nobody has calibrated is estimated from its family, peak and memory bandwidth alone, with a wide range.
    """
    name = accelerator.name.lower()
    return next((each for each in facts.chips if each.match in name), UNKNOWN_CHIP)


def step_tokens(shape: TrainingShape, chips: int) -> float:
    """Tokens one chip works on in one step.

    Args:
        shape: the job, with or without a batch.
        chips: accelerators that share the batch.
    """
    if shape.global_batch_tokens is not None:
        return shape.global_batch_tokens / chips
    assumed = max(DEFAULT_BATCH_TOKENS / chips, DEFAULT_STEP_TOKENS)
    return assumed if shape.most_batch_tokens is None else min(assumed, shape.most_batch_tokens / chips)


def terms(shape: TrainingShape, facts: TrainingFacts) -> tuple[float, ...]:
    """The values of `TERMS` for one job, each signed so that its coefficient is positive."""
    chip = shape.accelerator
    traits = chip_traits(chip, facts)
    moe, dense = shape.moe_share, 1.0 - shape.moe_share
    fp8 = dense if shape.fp8_counts else 0.0
    tuned = shape.stack is Stack.TUNED
    model = flops.per_token(shape)
    attention = flops.attention_per_token(shape) / model
    least, reference, most = MOE_ACTIVE_B
    modern = chip.family == "nvidia" and chip.peak_fp8_tflops is not None
    return (
        1.0,
        -math.log(chip.peak_bf16_tflops * 1e3 / chip.memory_gb_per_s / BALANCE_REFERENCE),
        -1.0 if traits.inference_card else 0.0,
        -1.0 if chip.family == "neuron" else 0.0,
        fp8,
        fp8 if tuned else 0.0,
        dense if tuned and modern and not fp8 else 0.0,
        -moe,
        moe * math.log(min(max(shape.active_params_b, least), most) / reference),
        -moe * max(0.0, math.log(chip.peak_bf16_tflops / MOE_PEAK_TFLOPS)),
        -1.0 if shape.trains_adapters else 0.0,
        -1.0 if shape.method is Method.QLORA else 0.0,
        -math.log(flops.hardware_per_token(shape) / model),
        -attention,
        -attention * fp8,
        -math.log1p(SMALL_B / shape.active_params_b),
        step_term(shape, shape.chips, traits),
        -max(0.0, math.log(memory.state_bytes(shape) / (shape.chips * chip.memory_gib * memory.GIB))),
    )


def step_term(shape: TrainingShape, chips: int, traits: ChipTraits) -> float:
    """The `step` term: what is lost when a step is too short to hide the exchange between machines; zero or less.

    -log(1 + threshold / tokens per chip and step): the threshold grows with the chip's peak and falls with its network.
    """
    threshold = (
        STEP_TOKENS * (shape.accelerator.peak_bf16_tflops / STEP_PEAK_TFLOPS) * (STEP_GBPS / traits.gbps_per_chip)
    )
    shared = max(1.0, shape.active_params_b / STEP_PARAMS_B) ** STEP_PARAMS_POWER
    return -math.log1p(threshold / (step_tokens(shape, chips) * shared))


def spread_classes(shape: TrainingShape) -> tuple[str, ...]:
    """The classes of job whose spread counts here; the widest of them is taken."""
    found = []
    if shape.moe:
        found.append("moe")
    if shape.accelerator.family == "neuron":
        found.append("neuron")
    if shape.trains_adapters:
        found.append("quantised" if shape.method is Method.QLORA else "adapters")
    if not found:
        found.append("fp8" if shape.fp8_counts else "bf16")
    return tuple(found)


def spread(shape: TrainingShape, facts: TrainingFacts) -> float:
    """The scale of log(true / estimated MFU), widened where the data are thin."""
    classes = spread_classes(shape)
    scale = max(_class_scale(name, shape, facts) for name in classes)
    counted = chip_traits(shape.accelerator, facts).rows
    rows = min(counted.get(name, 0) for name in classes) + OTHER_CLASS_ROW * sum(counted.values())
    thin = facts.constants["thin_chip_scale"].mid / math.sqrt(1.0 + rows / THIN_ROWS)
    extra = facts.constants["untuned_scale"].mid if shape.stack is Stack.UNTUNED else 0.0
    if shape.precision is Precision.FP8 and not shape.fp8_counts:
        extra += facts.constants["uncounted_fp8_scale"].mid
    return math.sqrt(scale * scale + thin * thin + extra * extra)


def _class_scale(name: str, shape: TrainingShape, facts: TrainingFacts) -> float:
    """The scale of one class; that of a model between dense and a mixture of experts lies between theirs."""
    scale = facts.spreads[name].scale
    if name != "moe":
        return scale
    plain = facts.spreads["fp8" if shape.fp8_counts else "bf16"].scale
    return plain + (scale - plain) * shape.moe_share


def estimate(shape: TrainingShape, facts: TrainingFacts) -> Mfu:
    """Utilisation of one job from the fit, without any measurement.

    Args:
        shape: the job.
        facts: coefficients and spreads.

    Returns:
        Fractions of the dense bf16 peak; FP8 jobs can pass 1.
    """
    weights = facts.coefficients
    log_mfu = sum(weights[name] * value for name, value in zip(TERMS, terms(shape, facts), strict=True))
    if shape.stack is Stack.UNTUNED:
        log_mfu += math.log(facts.constants["untuned_factor"].mid)
    scale = spread(shape, facts)
    ceiling = CEILING * (2.0 if shape.fp8_counts else 1.0)
    low, mid, high = (
        min(max(math.exp(log_mfu + shift), FLOOR), ceiling)
        for shift in (-facts.quantile_low * scale, 0.0, facts.quantile_high * scale)
    )
    return Mfu(low=low, mid=mid, high=high, scale=scale)
