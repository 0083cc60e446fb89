"""Losses of a job against its steady rate: checkpoints, failures, restarts, and unexplained losses of complete runs.

Failures of a job per hour are chips x the rate of one chip, plus a software term that does not grow with size. The
overhead is Daly's complete model at Daly's interval (`launcher.agent.interval`). Spot interruptions are not included;
they belong to pricing.
"""

import math
from functools import lru_cache
from typing import NamedTuple

from launcher.agent.interval import daly_interval_s, overhead_fraction
from launcher.model.enums import Stack
from launcher.model.money import Range
from launcher.model.training import TrainingFacts
from launcher.planning.optimizers import recipe
from launcher.planning.shape import TrainingShape

SECONDS_PER_HOUR = 3600.0
MINUTE_S = 60.0
UNKNOWN_WRITE_S = 60.0
"""Seconds to write a checkpoint of unknown content: an assumption."""
LONGEST_OVERHEAD = 19.0
"""Cap of the overhead (5 % of the time useful): a job beyond it would practically never end."""


class Overhead(NamedTuple):
    """Extra time per second of useful work, the upper logarithmic half-width of its range, and its causes.

    `node_failures_per_h` is the part of `failures_per_h` that chips and nodes cause.
    """

    fraction: float
    half_width: float
    failures_per_h: float
    checkpoint_s: float
    interval_s: float
    node_failures_per_h: float


def checkpoint_bytes(shape: TrainingShape, facts: TrainingFacts) -> float:
    """Bytes of one checkpoint: weights and optimizer states, or those of the adapters only for LoRA and QLoRA."""
    per_parameter = facts.constants["checkpoint_bytes_per_parameter"].mid
    return shape.trained_params * (per_parameter if shape.optimizer is None else recipe(shape.optimizer).checkpoint)


def checkpoint_write_s(shape: TrainingShape, facts: TrainingFacts) -> Range:
    """Seconds that the job waits for one checkpoint, while every node writes its part in parallel."""
    rate = facts.constants["checkpoint_gb_per_s_per_node"]
    fixed = facts.constants["checkpoint_fixed_s"]
    gb_per_node = checkpoint_bytes(shape, facts) / 1e9 / shape.nodes
    return Range(
        low=fixed.low + gb_per_node / rate.high,
        mid=fixed.mid + gb_per_node / rate.mid,
        high=fixed.high + gb_per_node / rate.low,
    )


@lru_cache(maxsize=8)
def overhead(shape: TrainingShape, facts: TrainingFacts) -> Overhead:
    """The time cost of checkpoints, failures and restarts, per second of useful work.

    The range sets the failure rate, the restart and the checkpoint to their worst value one at a time and adds the
    squares.
    """
    restart, write = facts.constants["restart_minutes"], checkpoint_write_s(shape, facts)
    failures = failure_rates(shape.chips, shape.stack, facts)
    middle, interval_s = _overhead(write.mid, failures.per_h, restart.mid)
    others = (
        (write.mid, failures.high_per_h, restart.mid),
        (write.mid, failures.per_h, restart.high),
        (write.high, failures.per_h, restart.mid),
    )
    squares = sum(math.log((1.0 + _overhead(*other)[0]) / (1.0 + middle)) ** 2 for other in others)
    return Overhead(middle, math.sqrt(squares), failures.per_h, write.mid, interval_s, failures.of_nodes_per_h)


class FailureRates(NamedTuple):
    """Failures of a job per hour: in the middle case, at the high end, and those that nodes cause."""

    per_h: float
    high_per_h: float
    of_nodes_per_h: float


def failure_rates(chips: int, stack: Stack, facts: TrainingFacts) -> FailureRates:
    """The failure rates of a job on so many chips, with the software of a stack."""
    per_chip = facts.constants["failures_per_accelerator_hour"]
    software = facts.constants[f"software_failures_per_hour_{stack.value}"]
    of_nodes = chips * per_chip.mid
    return FailureRates(of_nodes + software.mid, chips * per_chip.high + software.high, of_nodes)


class FailureLosses(NamedTuple):
    """Time lost to failures in addition to a job's own checkpoints, per hour of progress: middle and high case."""

    interval_s: float | None
    fraction: float
    high_fraction: float


def losses_of_hours(
    hours: float, write: Range, failures: FailureRates, restart: Range, *, interval_s: float | None, saves: bool
) -> FailureLosses:
    """The time that failures add to a job given in hours of progress, which include its checkpoints (Daly 2006).

    Args:
        hours: hours of progress.
        write: seconds of one checkpoint.
        failures: failure rates of the job.
        restart: minutes from a failure to the next step.
        interval_s: the plan's seconds between checkpoints; None: Daly's.
        saves: whether the job saves checkpoints; if not, a failure loses the whole run.
    """
    if interval_s is None and saves:
        mtbf_s = SECONDS_PER_HOUR / failures.per_h
        interval_s = max(daly_interval_s(checkpoint_s=write.mid, mtbf_s=mtbf_s), MINUTE_S)
    segment_s = interval_s if saves and interval_s is not None else hours * SECONDS_PER_HOUR

    def lost_share(write_s: float, per_h: float, restart_minutes: float) -> float:
        checkpoint_s = write_s if saves else 0.0
        share = overhead_fraction(
            checkpoint_s=checkpoint_s,
            interval_s=segment_s,
            mtbf_s=SECONDS_PER_HOUR / per_h,
            restart_s=restart_minutes * MINUTE_S,
        )
        return min(max(0.0, share - checkpoint_s / segment_s), LONGEST_OVERHEAD)

    middle = lost_share(write.mid, failures.per_h, restart.mid)
    high = lost_share(write.high, failures.high_per_h, restart.high)
    return FailureLosses(interval_s if saves else None, middle, max(middle, high))


def _overhead(checkpoint_s: float, failures_per_h: float, restart_minutes: float) -> tuple[float, float]:
    mtbf_s = SECONDS_PER_HOUR / failures_per_h
    interval_s = max(daly_interval_s(checkpoint_s=checkpoint_s, mtbf_s=mtbf_s), MINUTE_S)
    fraction = overhead_fraction(
        checkpoint_s=checkpoint_s, interval_s=interval_s, mtbf_s=mtbf_s, restart_s=restart_minutes * MINUTE_S
    )
    return min(fraction, LONGEST_OVERHEAD), interval_s


def run_factor(shape: TrainingShape, facts: TrainingFacts) -> float:
    """The ratio of the duration of complete runs to their steady rate, without failures; 1 or more."""
    return math.exp(facts.run_tuned if shape.stack is Stack.TUNED else facts.run_framework)
