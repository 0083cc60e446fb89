"""Model FLOPs utilisation (MFU): the share of the chips' bf16 peak that a job reaches, with its range.

log(MFU) is a sum of terms, each a property of the plan times a coefficient fitted to published runs
(`benchmarks/fit_training.py`; the rows and the fit ship in `launcher/catalog/data/training`). No term depends on a
model's name or a source. Every coefficient but the first is constrained to zero or above, so that each term has the
sign of its name, and those of `step` and `exchange` are bounded: then the tokens per second of all chips together never
fall when chips are added.

The range reaches `quantile` spreads below and above. A spread is the scale of the errors on sources that were left out
of the fit, by class of job, and is widened if few rows support the figure. The spread does not depend on the number of
chips.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from launcher.model.enums import Method, Precision, Recompute, Stack
from launcher.model.instance_type import Accelerator
from launcher.model.training import ChipTraits, TrainingFacts
from launcher.planning import flops, memory
from launcher.planning.shape import TrainingShape, known_hidden, known_layers

TERMS = (
    "base",
    "balance",
    "card",
    "neuron",
    "fp8",
    "fp8_tuned",
    "tuned",
    "moe",
    "moe_routing",
    "moe_peak",
    "moe_fp8",
    "moe_fp8_unscaled",
    "recompute",
    "attention",
    "attention_fp8",
    "small",
    "step",
    "offload",
    "huggingface",
    "micro_step",
    "moe_rack",
    "exchange",
    "untuned",
    "wide_chip",
)
"""The terms of log(MFU); `MEANINGS` describes each in words."""
MEANINGS: Mapping[str, str] = {
    "base": "a dense model in bf16 with ordinary software on a chip with the balance of an A100 80GB",
    "balance": "peak FLOPs per byte of memory bandwidth, against 153 of an A100 80GB",
    "card": "a power-capped PCIe card made for inference and graphics",
    "neuron": "Trainium and its compiler",
    "fp8": "FP8 matrix products, counted against the bf16 peak",
    "fp8_tuned": "FP8 with a tuned stack (fused kernels, overlapped communication)",
    "tuned": "bf16 with a tuned stack on chips of the FP8 generations",
    "moe": "mixture of experts: small matrix products, unequal loads",
    "moe_routing": "tokens copied to their experts and back, within a node, beside the arithmetic",
    "moe_peak": "routing falls behind as the peak grows beyond the 989 TFLOP/s of an H100",
    "moe_fp8": "FP8 matrix products in a mixture of experts",
    "moe_fp8_unscaled": "the same on chips that do not scale blocks in hardware: conversions take much of the gain",
    "recompute": "hardware FLOPs over model FLOPs with full recomputation",
    "attention": "share of the FLOPs in attention, where kernels are slower than matrix products",
    "attention_fp8": "the same with FP8: attention stays in bf16",
    "small": "small models: kernels too short to fill the chip",
    "step": "tokens a chip works on in one step, against the network between nodes",
    "offload": "states larger than all chips' memory: offloaded to the host",
    "huggingface": "Hugging Face trainers (Trainer, PEFT, TRL) compared with a compiled framework",
    "micro_step": "kernel launches of every layer and expansion of 4-bit weights, in every micro-step",
    "moe_rack": "mixture of experts on a rack-wide NVLink (GB200 NVL72)",
    "exchange": "experts spread over nodes: their tokens cross EFA, not hidden behind arithmetic",
    "untuned": "samples as shipped and user code: no compilation, offload, small steps",
    "wide_chip": "ordinary software does not fill a chip beyond the peak of an H100 yet",
}
BALANCE_REFERENCE = 153.0
"""FLOP per byte of an A100 80GB: 312 TFLOP/s over 2,039 GB/s (NVIDIA data sheet)."""
SMALL_B = 0.3
"""Billions of parameters at which the `small` term is log 2; chosen with the form of the fit."""
ROUTED_BYTES = 120.0
"""Bytes of memory traffic for one hidden unit of a token and expert: about 14 reads and writes in bf16 (permute, send,
receive, combine; forward and backward), and as much again for the exchange between the chips of a node over NVLink,
which carries 8 bytes at an eighth of the memory's speed. Of 60, 120 and 200, sources left out prefer 120 and more."""
MOE_PEAK_TFLOPS = 989.0
"""Peak of an H100, the last generation without hardware for block scaling in FP8."""
MOE_MOST_ATTENTION = 0.33
"""Share of attention in the FLOPs up to which the mixtures of the fit go: beyond it, the terms of mixtures shrink with
the rest of the FLOPs. Rows that no fit has seen (TRL on p5 with 16,384 to 1 million tokens) are nearer with it: the
estimate without it is 0.2 to 0.5 of their rate."""
DEFAULT_BATCH_TOKENS = 4.0e6
"""Batch assumed when the plan leaves it open: 4 M tokens (Llama 2, arXiv:2307.09288, section 2.2; PaLM and OPT use 2
to 4 M) ..."""
DEFAULT_STEP_TOKENS = 8192.0
"""... or 8,192 tokens a chip and step, whichever is more: users who add chips enlarge the batch, up to the batch of
published runs of that model size."""
STEP_TOKENS = 2500.0
"""Tokens per chip and step at which the `step` term is log 2 on an A100 with 50 Gbit/s; chosen with the form of the
fit."""
STEP_PEAK_TFLOPS = 312.0
STEP_GBPS = 50.0
STEP_PARAMS_B = 10.0
STEP_PARAMS_POWER = 0.2
"""Exponent for models above 10 billion parameters, which are split over chips that share a step's tokens; chosen
with the fit."""
WHOLE_STEP_CHIPS = 8.0
STEP_CHIPS_POWER = 0.6
"""Fewer chips than a node exchange less, and a single one only updates its weights: the threshold falls with this power
of the chips. A higher power would make two chips slower than one, together, at very small batches."""
EXCHANGED_BYTES = 2.0 * 4.0
"""Bytes of one hidden unit of a token and expert: bf16, to the expert and back, forward and backward."""
EXCHANGE_SHARE = 0.4
"""Share of the nodes' EFA bandwidth that the exchange of experts reaches without overlap: the published cells of four
mixtures on p5 and p6-b300 (awsome-distributed-ai@95b939cd) give 0.3 to 0.5."""
INFINIBAND_SHARE = 3.0
"""As a multiple of the line rate: tuned dispatchers on InfiniBand send a token once to a node and hide most of it. Rows
of Megatron-Bridge and NeMo AutoModel with experts over several nodes, left out by source, prefer 2 to 4."""
EXCHANGE_MFU = 0.35
"""Utilisation of the arithmetic that routing and exchange are compared with."""
MOST_STEP = 0.62
"""Upper bound of the coefficient of `step`; that of `exchange` is 1. Both together never make more nodes slower."""
DEFAULT_EXPERT_PARALLEL = 32
"""Chips that share one set of experts on several AWS nodes if the plan leaves it open: AWS's published layouts use 16
and 32."""
DEFAULT_TOP_K = 8
LAUNCH_S_PER_LAYER = 5e-3
"""Seconds of kernel launches of one layer in a micro-step of the Hugging Face trainers, forward, recomputed and back:
1.8B, 7B and 14B models at 256 to 512 tokens take 5.0, 4.7 and 5.0 ms (Qwen README, read 2026-11-23)."""
EXPAND_S_PER_PARAMETER = 8e-12
"""Seconds to expand one 4-bit weight on an A100: QLoRA less LoRA of the same README; chosen with the form of the
fit."""
A100_GB_PER_S = 2039.0
MICRO_STEP_MFU = 0.5
"""Utilisation of the arithmetic in the comparison with launches and expansion."""
DEFAULT_MICRO_BATCH = 2
"""Sequences a chip and micro-step if the plan leaves them open: judgement between the least ..."""
MAX_MICRO_BATCH = 8
"""... and the default of transformers' TrainingArguments; the range covers both."""
UNKNOWN_CHIP = ChipTraits(
    name="unknown", match="", gbps_per_chip=50.0, inference_card=False, rack_scale=False, rows={}, source=""
)
THIN_ROWS = 3.0
"""Rows on a chip and class of job that halve the variance added for thin data; judgement."""
OTHER_CLASS_ROW = 0.125
"""The weight of a row of another class on the same chip; judgement."""
NEURON_ADAPTERS = "neuron_adapters"
"""Adapters on Trainium, in the names of constants."""
FEW_SOURCES = 5
"""Sources of a class of jobs below which its range is at least as wide as the spread between them; judgement."""
FLOOR, CEILING = 0.002, 0.98
"""Limits of every estimate; the ceiling doubles if FP8 counts, whose peak is twice that of bf16."""
HIGHEST_PUBLISHED = 0.82
"""The highest share of the bf16 peak in the published runs without FP8: a small Qwen3 on one A10G (`g5-qwen3-456m`)."""


class Mfu(NamedTuple):
    """Utilisation as fractions, low <= mid <= high, and the scale of its spread."""

    low: float
    mid: float
    high: float
    scale: float


def chip_traits(accelerator: Accelerator, facts: TrainingFacts) -> ChipTraits:
    """The traits of a chip: the first entry whose `match` is in its lower-case name, or the unknown chip.

    An uncalibrated chip is estimated only from its family, peak and memory bandwidth, with a wide range.
    """
    name = accelerator.name.lower()
    return next((chip for chip in facts.chips if chip.match in name), UNKNOWN_CHIP)


def step_tokens(shape: TrainingShape, chips: int) -> float:
    """Tokens that one chip processes in one step.

    Args:
        shape: the job, with or without a batch.
        chips: accelerators that share the batch.
    """
    if shape.global_batch_tokens is not None:
        return shape.global_batch_tokens / chips
    assumed = max(DEFAULT_BATCH_TOKENS / chips, DEFAULT_STEP_TOKENS)
    return assumed if shape.max_batch_tokens is None else min(assumed, shape.max_batch_tokens / chips)


def terms(shape: TrainingShape, facts: TrainingFacts) -> tuple[float, ...]:
    """The values of `TERMS` for one job, each signed so that its coefficient is positive."""
    chip = shape.accelerator
    traits = chip_traits(chip, facts)
    model = flops.per_token(shape)
    attention = flops.attention_per_token(shape) / model
    dense = 1.0 - shape.moe_share
    # Attention has no routing: sequences so long that it dominates run as those of a dense model.
    moe = shape.moe_share * min(1.0, (1.0 - attention) / (1.0 - MOE_MOST_ATTENTION))
    fp8 = dense if shape.fp8_counts else 0.0
    tuned = shape.stack is Stack.TUNED
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
        shape.moe_share * routing_term(shape),
        -moe * max(0.0, math.log(chip.peak_bf16_tflops / MOE_PEAK_TFLOPS)),
        moe if shape.fp8_counts else 0.0,
        -moe if shape.fp8_counts and chip.peak_bf16_tflops <= MOE_PEAK_TFLOPS else 0.0,
        -math.log(flops.hardware_per_token(shape) / model),
        -attention,
        -attention * fp8,
        -math.log1p(SMALL_B / shape.active_params_b),
        step_term(shape, shape.chips, traits),
        -max(0.0, math.log(memory.least_state_bytes(shape) / (shape.chips * chip.memory_gib * memory.GIB))),
        -1.0 if shape.stack is Stack.HUGGINGFACE else 0.0,
        micro_step_term(shape),
        moe if traits.rack_scale else 0.0,
        shape.moe_share * exchange_term(shape, traits),
        -1.0 if shape.stack is Stack.UNTUNED else 0.0,
        -dense * max(0.0, math.log(chip.peak_bf16_tflops / MOE_PEAK_TFLOPS)) if not tuned else 0.0,
    )


def routing_term(shape: TrainingShape) -> float:
    """The `moe_routing` term: time of the tokens' copies to their experts and back, as a logarithm; zero or less.

    The copies grow with `top_k` times the hidden size, the arithmetic with the active parameters: small experts wait
    longer than large ones.
    """
    layers = shape.expert_layers or known_layers(shape)
    copied = ROUTED_BYTES * (shape.top_k or DEFAULT_TOP_K) * layers * known_hidden(shape)
    memory_s = copied / (shape.accelerator.memory_gb_per_s * 1e9)
    return -math.log1p(memory_s / _arithmetic_seconds(shape))


def _arithmetic_seconds(shape: TrainingShape) -> float:
    """The arithmetic of one token on one chip, with which the copies and the exchange of a mixture are compared."""
    return flops.per_token(shape) / (shape.accelerator.peak_bf16_tflops * 1e12 * EXCHANGE_MFU)


def exchange_term(shape: TrainingShape, traits: ChipTraits) -> float:
    """The `exchange` term: time of the tokens' way to experts on other nodes over EFA, as a logarithm; zero or less.

    Every token goes to `top_k` experts, of which the share beyond the own node crosses the network. Recipes that keep
    the experts of a layer within a node have none. No job is slower than on one of its nodes alone, so that tokens per
    second never fall when nodes are added.
    """
    if shape.expert_parallel is None and not shape.efa:
        return 0.0
    spread = min(shape.expert_parallel or DEFAULT_EXPERT_PARALLEL, shape.chips)
    if traits.rack_scale or spread <= shape.chips_per_node:
        return 0.0
    crossing = 1.0 - shape.chips_per_node / spread
    exchanged = EXCHANGED_BYTES * (shape.top_k or DEFAULT_TOP_K) * known_layers(shape) * known_hidden(shape) * crossing
    network_s = exchanged / (traits.gbps_per_chip / 8.0 * 1e9 * (EXCHANGE_SHARE if shape.efa else INFINIBAND_SHARE))
    slower = step_term(shape, shape.chips_per_node, traits) - step_term(shape, shape.chips, traits)
    waited = -math.log1p(network_s / _arithmetic_seconds(shape))
    return max(waited, min(0.0, MOST_STEP * slower - math.log(shape.nodes)))


def micro_step_term(shape: TrainingShape) -> float:
    """The `micro_step` term: the time of a micro-step other than its arithmetic, as a logarithm; zero or less.

    The host launches eager kernels while the chip runs earlier ones, so the slower of the two counts (smoothed by a
    third power); the chip expands 4-bit weights itself, once a pass, at the speed of its memory.
    """
    launched = shape.stack is Stack.HUGGINGFACE
    if not has_micro_steps(shape):
        return 0.0
    chip = shape.accelerator
    tokens = shape.sequence_length * float(shape.micro_batch or DEFAULT_MICRO_BATCH)
    arithmetic = tokens * flops.hardware_per_token(shape) / (chip.peak_bf16_tflops * 1e12 * MICRO_STEP_MFU)
    passes = 3.0 if shape.recompute is Recompute.FULL else 2.0
    launches = LAUNCH_S_PER_LAYER * known_layers(shape) * passes / 3.0 if launched else 0.0
    expanded = passes * EXPAND_S_PER_PARAMETER * (A100_GB_PER_S / chip.memory_gb_per_s) * shape.active_params_b * 1e9
    expansion = expanded if shape.method is Method.QLORA else 0.0
    return -math.log((math.cbrt(arithmetic**3 + launches**3) + expansion) / arithmetic)


def step_term(shape: TrainingShape, chips: int, traits: ChipTraits) -> float:
    """The `step` term: the loss when a step is too short to hide the exchange between nodes; zero or less.

    -log(1 + threshold / tokens per chip and step): the threshold grows with the chip's peak and falls with its network.
    """
    threshold = (
        STEP_TOKENS * (shape.accelerator.peak_bf16_tflops / STEP_PEAK_TFLOPS) * (STEP_GBPS / traits.gbps_per_chip)
    )
    shared = max(1.0, shape.active_params_b / STEP_PARAMS_B) ** STEP_PARAMS_POWER
    within = min(1.0, (chips / WHOLE_STEP_CHIPS) ** STEP_CHIPS_POWER)
    return -math.log1p(threshold * within / (step_tokens(shape, chips) * shared))


def has_micro_steps(shape: TrainingShape) -> bool:
    """Whether the length of a micro-step matters: compiled stacks launch a few large kernels."""
    return shape.stack is Stack.HUGGINGFACE or shape.method is Method.QLORA


def spread_classes(shape: TrainingShape) -> tuple[str, ...]:
    """The classes of job whose spread applies; the widest of them counts."""
    classes = []
    if shape.moe:
        classes.append("moe")
    if shape.accelerator.family == "neuron":
        classes.append("neuron")
    if shape.stack is Stack.HUGGINGFACE:
        classes.append("huggingface")
    elif shape.trains_adapters:
        classes.append("quantised" if shape.method is Method.QLORA else "adapters")
    return tuple(classes or ["fp8" if shape.fp8_counts else "bf16"])


def log_scale(shape: TrainingShape, facts: TrainingFacts, *, later: bool = True) -> float:
    """The scale of log(true / estimated MFU), widened if the data are thin.

    `later`: also by what sources found after the fit show of the class; the fit itself does not know them.
    """
    classes = spread_classes(shape)
    scale = max(
        math.hypot(_class_scale(name, shape, facts), _later_scale(name, facts) if later else 0.0)
        for name in _wider_classes(shape)
    )
    if later and on_neuron_adapters(shape):
        scale = math.hypot(scale, _later_scale(NEURON_ADAPTERS, facts))
    counted = chip_traits(shape.accelerator, facts).rows
    rows = min(counted.get(name, 0) for name in classes) + OTHER_CLASS_ROW * sum(counted.values())
    thin = facts.constants["thin_chip_scale"].mid / math.sqrt(1.0 + rows / THIN_ROWS)
    extra = facts.constants["untuned_scale"].mid if shape.stack is Stack.UNTUNED else 0.0
    cut = facts.constants["tensor_parallel_scale"].mid if later and cuts_matrices(shape) else 0.0
    if not shape.stack_known and shape.method is not Method.PRETRAIN:
        extra += facts.constants[f"unnamed_{shape.stack.value}_scale"].mid
    if shape.precision is Precision.FP8 and not shape.fp8_counts:
        extra += facts.constants["uncounted_fp8_scale"].mid
    unseen = facts.constants["unseen_instance_scale"].mid if rows_on_instance(shape, facts) == 0 else 0.0
    return math.hypot(scale, thin, extra, cut, unseen, _micro_batch_scale(shape, facts))


def rows_on_instance(shape: TrainingShape, facts: TrainingFacts) -> int | None:
    """Published rows of this kind of job on this family of AWS instances; None if the shape names no instance."""
    if shape.instance_family is None:
        return None
    counted = facts.instance_rows.get(shape.instance_family, {})
    return min(counted.get(name, 0) for name in spread_classes(shape))


def on_neuron_adapters(shape: TrainingShape) -> bool:
    """Whether a job trains adapters on Trainium: the fit has no source of these, and one was found after it."""
    return shape.accelerator.family == "neuron" and shape.trains_adapters


def assumes_exchange(shape: TrainingShape) -> bool:
    """Whether a mixture runs on several AWS nodes without its `expert_parallel`: the range then holds both layouts."""
    return shape.moe and shape.efa and shape.expert_parallel is None and shape.nodes > 1


def cuts_matrices(shape: TrainingShape) -> bool:
    """Whether a stack of PyTorch on GPUs shares each matrix between chips: their exchange waits in every layer.

    Megatron-like stacks overlap the exchange, and Neuron's cuts every model: it is in the fit of both.
    """
    plain = shape.stack in {Stack.FRAMEWORK, Stack.HUGGINGFACE} and shape.accelerator.family == "nvidia"
    return plain and (shape.tensor_parallel or 1) > 1


def tensor_factor(shape: TrainingShape, facts: TrainingFacts) -> float:
    """What tensor parallelism leaves of the rate; 1 where it is not stated, or in the fit."""
    return 1.0 / facts.constants["tensor_parallel_factor"].mid if cuts_matrices(shape) else 1.0


def every_class(shape: TrainingShape) -> tuple[str, ...]:
    """The classes of the fit: those of `spread_classes`, and that of dense models fine-tuned in full.

    The chips' rows of pretraining also count for fine-tuning, so it is no class of the rows.
    """
    classes = spread_classes(shape)
    dense = classes[0] in {"bf16", "fp8"} and shape.method is not Method.PRETRAIN
    return (*classes, "finetuning") if dense else classes


def _wider_classes(shape: TrainingShape) -> tuple[str, ...]:
    """The classes whose scale counts: adapters on quantized weights, with few rows, are also adapters."""
    classes = every_class(shape)
    return (*classes, "adapters") if "quantised" in classes else classes


def few_sources(shape: TrainingShape, facts: TrainingFacts) -> int | None:
    """The number of published sources of the job's class that has the fewest, if they are few; else None."""
    if on_neuron_adapters(shape):
        return 1
    sources = min(facts.spreads[name].sources for name in every_class(shape))
    return sources if sources < FEW_SOURCES else None


def _micro_batch_scale(shape: TrainingShape, facts: TrainingFacts) -> float:
    """The scale of open micro-batches: their full range, from the smallest to the largest."""
    if shape.micro_batch is not None or not has_micro_steps(shape):
        return 0.0
    least, most = (micro_step_term(replace(shape, micro_batch=size)) for size in (1, MAX_MICRO_BATCH))
    return facts.coefficients["micro_step"] * (most - least) / max(2.0 * facts.quantile, 1.0)


def _class_scale(name: str, shape: TrainingShape, facts: TrainingFacts) -> float:
    """The scale of one class; a model between dense and a mixture of experts has a scale between the two."""
    factor = facts.constants.get(f"range_factor_{name}")
    scale = facts.spreads[name].scale * (factor.mid if factor else 1.0)
    if name != "moe":
        return scale
    plain = facts.spreads["fp8" if shape.fp8_counts else "bf16"].scale
    return plain + (scale - plain) * shape.moe_share


def _later_scale(name: str, facts: TrainingFacts) -> float:
    """What sources found after the fit add to the scale of one class."""
    found = facts.constants.get(f"later_sources_{name}_scale")
    return 0.0 if found is None else found.mid


def estimate(shape: TrainingShape, facts: TrainingFacts) -> Mfu:
    """Utilisation of one job from the fit, without any measurement.

    Args:
        shape: the job.
        facts: coefficients and spreads.

    Returns:
        Fractions of the dense bf16 peak; FP8 jobs can pass 1.
    """
    log_mfu = _log_mfu(shape, facts)
    scale = log_scale(shape, facts)
    ceiling = CEILING * (2.0 if shape.fp8_counts else 1.0)
    low, mid, high = (
        min(max(math.exp(log_mfu + shift), FLOOR), ceiling)
        for shift in (-facts.quantile * scale, 0.0, facts.quantile * scale)
    )
    if assumes_exchange(shape):
        within = replace(shape, expert_parallel=shape.chips_per_node)
        high = max(high, min(math.exp(_log_mfu(within, facts)), ceiling))
    return Mfu(low=low, mid=mid, high=high, scale=scale)


def _log_mfu(shape: TrainingShape, facts: TrainingFacts) -> float:
    weights = facts.coefficients
    fitted = sum(weights[name] * value for name, value in zip(TERMS, terms(shape, facts), strict=True))
    return fitted + math.log(tensor_factor(shape, facts))
