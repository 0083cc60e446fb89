"""The steady rate of a job in tokens per second: from utilisation and the user's measurements, or from one node.

A node measurement in the plan (`throughput_tokens_per_s`) replaces the estimate; measured runs of the folder correct
the estimate (`posterior.py`).
"""

import math
from typing import NamedTuple

from launcher.model.enums import Optimizer
from launcher.model.learned import Posterior
from launcher.model.training import TrainingFacts
from launcher.planning import flops, utilisation
from launcher.planning.optimizers import DEFAULT, recipe
from launcher.planning.shape import TrainingShape, known_hidden

MUON_STEPS = 5.0
TENTH = 1.2816
"""Standard deviations of a normal distribution from its middle to its 10th and its 90th percentile."""


class Rate(NamedTuple):
    """Tokens per second of all chips and the resulting MFU, low, middle, high, and the scale of their spread."""

    tokens_low: float
    tokens_mid: float
    tokens_high: float
    mfu_low: float
    mfu_mid: float
    mfu_high: float
    scale: float


def rate(shape: TrainingShape, facts: TrainingFacts) -> Rate:
    """The steady rate of all chips together: estimated, or scaled from a measurement on one node."""
    capacity = shape.chips * shape.accelerator.peak_bf16_tflops * 1e12 / flops.per_token(shape)
    if shape.measured_tokens_per_s is not None:
        return _measured(shape, facts, capacity)
    mfu = utilisation.estimate(shape, facts)
    factor = optimizer_factor(shape, mfu.mid)
    if factor != 1.0:
        mfu = utilisation.Mfu(low=mfu.low * factor, mid=mfu.mid * factor, high=mfu.high * factor, scale=mfu.scale)
    learned = _posterior(shape, facts, mfu.scale)
    if learned is not None:
        mid = mfu.mid * math.exp(learned.shift)
        # The posterior is normal; yet no measurement widens the range of the estimate alone, unless runs contradict
        # each other.
        alone = math.inf if learned.contradiction else mfu.scale
        width = math.exp(min(TENTH * learned.scale, facts.quantile * alone))
        mfu = utilisation.Mfu(low=mid / width, mid=mid, high=mid * width, scale=learned.scale)
    return Rate(capacity * mfu.low, capacity * mfu.mid, capacity * mfu.high, mfu.low, mfu.mid, mfu.high, mfu.scale)


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


def _measured(shape: TrainingShape, facts: TrainingFacts, capacity: float) -> Rate:
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
    return Rate(low, tokens, high, low / capacity, tokens / capacity, high / capacity, scale)
