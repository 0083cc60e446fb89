"""The steady rate of a job in tokens per second: from utilisation and the user's measurements, or from one node.

A plan on nodes with a slower network than those of published runs, whose weights cross it in every micro-step, takes
longer (`gather_factors`). A node measurement in the plan (`throughput_tokens_per_s`) replaces the estimate; measured
runs of the folder correct the estimate (`posterior.py`).
"""

import math
from dataclasses import replace
from typing import NamedTuple

from launcher.model.enums import Optimizer, Stack
from launcher.model.learned import Posterior
from launcher.model.training import TrainingFacts
from launcher.planning import flops, memory, utilisation
from launcher.planning.optimizers import DEFAULT, recipe
from launcher.planning.shape import TrainingShape, known_hidden

MUON_STEPS = 5.0
GATHER_SHARE = 0.85
"""Share of the nodes' network that collectives reach: 340 of 400 Gbit/s on p4d (stas00/ml-engineering@744d01e,
network/README.md)."""
TENTH = 1.2816
"""Standard deviations of a normal distribution from its middle to its 10th and its 90th percentile."""


class TokenRate(NamedTuple):
    """Tokens per second of all chips and the resulting MFU, low, middle, high, and the scale of their spread."""

    tokens_low: float
    tokens_mid: float
    tokens_high: float
    mfu_low: float
    mfu_mid: float
    mfu_high: float
    scale: float


def rate(shape: TrainingShape, facts: TrainingFacts) -> TokenRate:
    """The steady rate of all chips together: estimated, or scaled from a measurement on one node."""
    capacity = shape.chips * shape.accelerator.peak_bf16_tflops * 1e12 / flops.per_token(shape)
    if shape.measured_tokens_per_s is not None:
        return _measured_rate(shape, facts, capacity)
    mfu = utilisation.estimate(shape, facts)
    factor = optimizer_factor(shape, mfu.mid)
    if factor != 1.0:
        mfu = utilisation.Mfu(low=mfu.low * factor, mid=mfu.mid * factor, high=mfu.high * factor, scale=mfu.scale)
    slower = gather_factors(shape, facts, mfu.mid)
    if slower is not None:
        low, mid, high = slower
        mfu = utilisation.Mfu(low=mfu.low * low, mid=mfu.mid * mid, high=mfu.high * high, scale=mfu.scale)
    learned = _posterior(shape, facts, mfu.scale)
    if learned is not None:
        mid = mfu.mid * math.exp(learned.shift)
        # The posterior is normal; yet no measurement widens the range of the estimate alone, unless runs contradict
        # each other.
        alone = math.inf if learned.contradiction else mfu.scale
        width = math.exp(min(TENTH * learned.scale, facts.quantile * alone))
        mfu = utilisation.Mfu(low=mid / width, mid=mid, high=mid * width, scale=learned.scale)
    return TokenRate(capacity * mfu.low, capacity * mfu.mid, capacity * mfu.high, mfu.low, mfu.mid, mfu.high, mfu.scale)


def _posterior(shape: TrainingShape, facts: TrainingFacts, prior_scale: float) -> Posterior | None:
    """The error of the estimate after the user's own measurements; None without any that applies."""
    if not facts.measured:
        return None
    from launcher.planning.posterior import posterior

    return posterior(shape, facts, prior_scale)


def optimizer_factor(shape: TrainingShape, mfu: float) -> float:
    """The rate with the plan's optimizer, as a multiple of the rate with AdamW in mixed precision, with which rows run.

    An optimizer reads and writes its states once a step at the speed of the memory, each chip its share. Muon also
    orthogonalises every matrix: 5 x width / tokens of the batch, of the step (Jordan 2024,
    kellerjordan.github.io/posts/muon).
    """
    if shape.optimizer in {None, DEFAULT}:
        return 1.0
    tokens = utilisation.step_tokens(shape, shape.chips)
    chip = shape.accelerator
    step_s = tokens * flops.per_token(shape) / (chip.peak_bf16_tflops * 1e12 * mfu)
    more = recipe(shape.optimizer).traffic - recipe(DEFAULT).traffic
    extra_s = more * shape.trained_params / shape.chips / (chip.memory_gb_per_s * 1e9)
    if shape.optimizer is Optimizer.MUON:
        extra_s += step_s * MUON_STEPS * known_hidden(shape) / (tokens * shape.chips)
    return step_s / max(step_s + extra_s, step_s / 2.0)


def gather_factors(shape: TrainingShape, facts: TrainingFacts, mfu: float) -> tuple[float, float, float] | None:
    """The rate over nodes that share the weights, as multiples of the rate on the clusters of published rows.

    Sharded training (FSDP, ZeRO-3) brings the weights of the other nodes to each node in every micro-step, twice, and
    sends their gradients back. The network works beside the arithmetic, so the slower of the two counts (smoothed by a
    third power). Tuned stacks cut matrices within a node instead, and mixtures have the `exchange` term. Published
    rows of several nodes are of clusters with eight chips a node, whose own wait is in the fit; those of cards without
    NVLink are of one node.

    Args:
        shape: the job.
        facts: the chips' networks.
        mfu: utilisation without the network.

    Returns:
        Low, middle and high: an open micro-batch makes the range wider. None where no weights cross the network.
    """
    if shape.node_gbps is None or shape.nodes < 2 or shape.moe:  # noqa: PLR2004
        return None
    if shape.stack is Stack.TUNED or shape.accelerator.family != "nvidia":
        return None
    traits = utilisation.chip_traits(shape.accelerator, facts)
    fitted_gbps = math.inf if traits.inference_card else traits.gbps_per_chip * utilisation.WHOLE_STEP_CHIPS
    if shape.node_gbps >= fitted_gbps or memory.fits(replace(shape, chips=shape.chips_per_node)).fits:
        return None
    sizes = (1, utilisation.DEFAULT_MICRO_BATCH, utilisation.MAX_MICRO_BATCH)
    batches = [shape.micro_batch or size for size in sizes]
    low, mid, high = (
        _gather_factor(shape, shape.node_gbps, mfu, batch) / _gather_factor(shape, fitted_gbps, mfu, batch)
        for batch in batches
    )
    return low, mid, high


def gather_seconds(shape: TrainingShape, node_gbps: float) -> float:
    """Seconds in which the weights and gradients of one micro-step pass the network of a node."""
    passes = 2.0 if shape.trains_adapters else 3.0
    crossing = memory.WEIGHT_BYTES[shape.method] * shape.params_b * 1e9 * (1.0 - 1.0 / shape.nodes)
    return passes * crossing / (node_gbps / 8.0 * 1e9 * GATHER_SHARE)


def _gather_factor(shape: TrainingShape, node_gbps: float, mfu: float, micro_batch: int) -> float:
    tokens = shape.sequence_length * micro_batch
    arithmetic_s = tokens * flops.per_token(shape) / (shape.accelerator.peak_bf16_tflops * 1e12 * mfu)
    return 1.0 / math.cbrt(1.0 + (gather_seconds(shape, node_gbps) / arithmetic_s) ** 3)


def _measured_rate(shape: TrainingShape, facts: TrainingFacts, capacity: float) -> TokenRate:
    """The rate from a measurement on one node; the `step` term estimates the scaling loss on more nodes.

    The batch is the job's, as if the one node processed all of it. The range grows with the loss.
    """
    measured = shape.measured_tokens_per_s or 0.0
    traits = utilisation.chip_traits(shape.accelerator, facts)
    weight = facts.coefficients["step"]
    many = utilisation.step_term(shape, shape.chips, traits)
    one = utilisation.step_term(shape, min(shape.chips, shape.chips_per_node), traits)
    loss = weight * (one - many)
    tokens = measured * max(1.0, shape.chips / shape.chips_per_node) * math.exp(-loss)
    constants = facts.constants
    scale = constants["measured_scale"].mid + constants["measured_loss_share"].mid * loss
    low, high = tokens * math.exp(-scale), tokens * math.exp(scale)
    return TokenRate(low, tokens, high, low / capacity, tokens / capacity, high / capacity, scale)
