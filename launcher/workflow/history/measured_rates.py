"""Rates of a run, from the metrics of its trainer: tokens or samples a second, and seconds a step."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

from launcher.agent.forecast import Point
from launcher.model.errors import UnreadableInputError
from launcher.model.money import Range
from launcher.model.workload import TrainingWorkload

WARM_UP = 0.2
"""Share of an attempt's first lines that are omitted: compilation, caches, the first read of the data."""
MIN_STRETCHES = 3
LOW, HIGH = 0.05, 0.95
MAX_STRETCHES = 100
"""The maximum number of stretches of a run for rates, so that one line per step does not count as a spread."""


def counts_samples(attempt_stretches: Iterable[Sequence[Point]], train: TrainingWorkload) -> bool:
    """Whether the trainer reports samples, and neither it nor the plan says how many tokens they are."""
    every = [point for lines in attempt_stretches for point in lines]
    tokens = train.global_batch_tokens is not None or any(point.tokens is not None for point in every)
    return not tokens and any(point.samples is not None for point in every)


def stretch_rates(
    attempt_stretches: Sequence[Sequence[Point]], batch: int | None, *, samples: bool = False
) -> tuple[Range, Range]:
    """Tokens or samples a second, and seconds a step."""
    stretches: list[tuple[float, float, int]] = []
    for reported in attempt_stretches:
        # From here on, what is counted are tokens or samples, by what the trainer reports.
        lines = [replace(point, tokens=point.samples) for point in reported] if samples else reported
        warm = list(lines[max(1, round(len(lines) * WARM_UP)) :])
        every = max(1, len(warm) // MAX_STRETCHES)
        for before, after in pairwise(warm[::every]):
            tokens = _between(before, after, batch)
            if tokens is not None and tokens > 0:
                stretches.append((tokens, after.seconds - before.seconds, after.step - before.step))
    if len(stretches) < MIN_STRETCHES:
        raise UnreadableInputError(
            f"the trainer's metrics have {len(stretches)} stretches after the warm-up, {MIN_STRETCHES} are needed",
            hint="write step, tokens (or samples) and the seconds since the start of the attempt to SLIPWAY_METRICS"
            " every few steps (docs/trainers.md)",
        )
    tokens, seconds, steps = (sum(stretch[place] for stretch in stretches) for place in range(3))
    rates = _measured_range(tokens / seconds, (stretch[0] / stretch[1] for stretch in stretches))
    return rates, _measured_range(seconds / steps, (stretch[1] / stretch[2] for stretch in stretches))


def _measured_range(mid: float, single: Iterable[float]) -> Range:
    ordered = sorted(single)
    low, high = (ordered[round(share * (len(ordered) - 1))] for share in (LOW, HIGH))
    return Range(low=min(low, mid), mid=mid, high=max(high, mid))


def _between(before: Point, after: Point, batch: int | None) -> float | None:
    if before.tokens is not None and after.tokens is not None:
        return after.tokens - before.tokens
    return None if batch is None else float(batch * (after.step - before.step))


def batch_tokens(stretches: Iterable[Sequence[Point]]) -> float | None:
    """The tokens of a step, by what the trainer counts; None if it counts none."""
    sizes = [
        (after.tokens - before.tokens) / (after.step - before.step)
        for lines in stretches
        for before, after in pairwise(lines)
        if before.tokens is not None and after.tokens is not None and after.tokens > before.tokens
    ]
    return statistics.median(sizes) if sizes else None
