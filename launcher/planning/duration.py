"""How long a training job takes: steady hours from utilisation, expected hours with what goes wrong on the way.

    tokens/s       = MFU x chips x bf16 peak / FLOPs per token
    steady hours   = tokens / (tokens/s) / 3600
    expected hours = steady hours x run factor x (1 + overhead of checkpoints, failures and restarts) + first
    compilation

The run factor is fitted: how much slower whole published runs were than their steady rate (evaluation, data, logging,
slow nodes). Independent causes widen a range by the root of the sum of their squares, in logarithms.
"""

import dataclasses
import math

from launcher.model.money import Range
from launcher.model.training import TrainingEstimate, TrainingFacts
from launcher.planning import explanation, goodput, throughput
from launcher.planning.goodput import MINUTE_S, SECONDS_PER_HOUR
from launcher.planning.shape import TrainingShape


def estimate(shape: TrainingShape, tokens: float, facts: TrainingFacts) -> TrainingEstimate:
    """The estimate with the assumptions it rests on, each with its arithmetic.

    Args:
        shape: the job.
        tokens: tokens to train on, above 0.
        facts: coefficients, spreads and constants.

    Raises:
        ValueError: tokens is not finite or not above zero.
    """
    bare = numbers(shape, tokens, facts)
    return dataclasses.replace(bare, assumptions=explanation.assumptions(shape, tokens, facts, bare))


def numbers(shape: TrainingShape, tokens: float, facts: TrainingFacts) -> TrainingEstimate:
    """The estimate without its words, for the many candidates that are only ranked.

    Args:
        shape: the job.
        tokens: tokens to train on, above 0.
        facts: coefficients, spreads and constants.

    Raises:
        ValueError: tokens is not finite or not above zero.
    """
    if not 0.0 < tokens < math.inf:
        raise ValueError(f"tokens is {tokens}; it must be finite and above 0")
    speed = throughput.rate(shape, facts)
    lost = goodput.overhead(shape, facts)
    mid_h = tokens / speed.tokens_mid / SECONDS_PER_HOUR
    steady = Range(
        low=tokens / speed.tokens_high / SECONDS_PER_HOUR, mid=mid_h, high=tokens / speed.tokens_low / SECONDS_PER_HOUR
    )
    run_scale = facts.run_scale
    slower = math.hypot(math.log(speed.tokens_mid / speed.tokens_low), facts.quantile_low * run_scale, lost.half_width)
    faster = math.hypot(math.log(speed.tokens_high / speed.tokens_mid), facts.quantile_high * run_scale)
    expected_mid = mid_h * goodput.run_factor(shape, facts) * (1.0 + lost.fraction)
    expected_low = max(expected_mid * math.exp(-faster), steady.low)
    expected_high = max(expected_mid * math.exp(slower), steady.high)
    compiled = facts.constants["neuron_compile_minutes"] if shape.accelerator.family == "neuron" else None
    first = compiled.range.scaled(1.0 / MINUTE_S) if compiled else Range(low=0.0, mid=0.0, high=0.0)
    return TrainingEstimate(
        tokens_per_s=Range(low=speed.tokens_low, mid=speed.tokens_mid, high=speed.tokens_high),
        mfu=Range(low=speed.mfu_low, mid=speed.mfu_mid, high=speed.mfu_high),
        steady_hours=steady,
        expected_hours=Range(
            low=expected_low + first.low, mid=expected_mid + first.mid, high=expected_high + first.high
        ),
        checkpoint_gb=goodput.checkpoint_bytes(shape, facts) / 1e9,
        checkpoint_write_s=goodput.checkpoint_write_s(shape, facts),
    )
