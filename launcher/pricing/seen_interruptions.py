"""Interruptions of the user's own spot runs: a posterior of the rate of one node.

The prior is lognormal by the percentiles of the assumed rate. Above its 90th percentile it reaches evenly, in
logarithms, to the worst published trace, because a type that AWS interrupts far more often than its band says is known
from other years. Runs on the same type add their counts, `k` interruptions in `E` node-hours, as a Poisson number does;
the posterior is computed on a grid of rates.

A node-hour of a run in another region counts by half (a power prior, Ibrahim and Chen 2000, Statistical Science 15:46),
and a run of several nodes by the rate of a job (`hazard.job_rate`). Runs whose counts differ by more than chance allows
(chi squared over its 99.7 % point) are named, and all of them count less by their dispersion, which widens the range.
"""

import math
from collections.abc import Iterable
from datetime import date
from typing import NamedTuple

from launcher.model.enums import PurchaseOption
from launcher.model.learned import Learned
from launcher.model.measurement import Measurement
from launcher.planning.posterior import unlikely
from launcher.pricing.hazard import WORST_PER_NODE_HOUR
from launcher.pricing.normal import Z_OF_THE_ENDS

ELSEWHERE = 0.5
"""The weight of a run in another region: a judgement."""
POINTS = 600
"""Rates of the grid, even in logarithms."""
TAIL = 0.02
"""Share of the prior between its 90th percentile and the worst trace, in addition to the lognormal's: a judgement."""


class Count(NamedTuple):
    """Interruptions of one run, and the node-hours in which they occurred."""

    run: str
    interruptions: int
    node_hours: float
    weight: float
    day: date


def interruption_counts(
    instance_type: str, region: str, measured: Iterable[Measurement], one_node: float
) -> tuple[Count, ...]:
    """The interruptions of the spot runs of a type.

    Args:
        instance_type: the type.
        region: the region of the job.
        measured: all runs.
        one_node: the share of a job's interruptions that hits each node separately.
    """
    return tuple(
        Count(
            run=measurement.run,
            interruptions=measurement.interruptions,
            node_hours=measurement.running_h * (1.0 - one_node + one_node * measurement.nodes),
            weight=1.0 if measurement.region == region else ELSEWHERE,
            day=measurement.measured_at.date(),
        )
        for measurement in measured
        if measurement.instance_type == instance_type
        and not measurement.simulated
        and measurement.purchase_option == PurchaseOption.SPOT
        and measurement.interruptions is not None
        and measurement.running_h
    )


def learned_rate(low: float, mid: float, high: float, observations: tuple[Count, ...]) -> Learned | None:
    """Interruptions per node-hour after the observed runs; None without observations.

    Args:
        low: low end of the assumed rate, above 0.
        mid: middle of the assumed rate.
        high: high end of the assumed rate.
        observations: the counts of the runs.
    """
    if not observations:
        return None
    spread, contradicts = _dispersion(observations)
    interruptions = sum(run.weight * run.interruptions for run in observations) / spread
    hours = sum(run.weight * run.node_hours for run in observations) / spread
    ends = _posterior(low, mid, high, interruptions, hours)
    runs = "; ".join(f"{run.run}: {run.interruptions} in {run.node_hours:.4g} node-hours" for run in observations)
    return Learned(
        low=ends[0],
        mid=ends[1],
        high=ends[2],
        runs=tuple(run.run for run in observations),
        as_of=max(run.day for run in observations),
        steps=(
            f"without a run {mid:.3g} per node-hour ({low:.2g} to {high:.2g})",
            f"{runs}; those of other regions count by half",
            f"with {interruptions:.3g} interruptions in {hours:.4g} node-hours: {ends[1]:.3g} per node-hour",
        ),
        contradiction=runs if contradicts else "",
    )


def _posterior(low: float, mid: float, high: float, interruptions: float, hours: float) -> tuple[float, float, float]:
    """The 10th, 50th and 90th percentile of the rate after the counts."""
    down, up = math.log(mid / low) / Z_OF_THE_ENDS, math.log(high / mid) / Z_OF_THE_ENDS
    # Half of the evidence's width around it, and the whole prior, are on the grid.
    rates = [
        math.exp(math.log(low) - 6 + index / POINTS * (math.log(WORST_PER_NODE_HOUR) + 8 - math.log(low)))
        for index in range(POINTS)
    ]
    weights = []
    for rate in rates:
        distance = math.log(rate / mid)
        width = down if distance < 0 else up
        prior = -((distance / width) ** 2) / 2 - math.log(width)
        if rate > high:
            prior = max(prior, math.log(TAIL * math.sqrt(2 * math.pi) / max(1.0, math.log(WORST_PER_NODE_HOUR / high))))
        weights.append(prior + interruptions * math.log(rate) - rate * hours)
    top = max(weights)
    likely = [math.exp(weight - top) for weight in weights]
    return tuple(_percentile(rates, likely, chance) for chance in (0.1, 0.5, 0.9))  # type: ignore[return-value]


def _percentile(values: list[float], weights: list[float], chance: float) -> float:
    """The value under which so much of the weight lies, between the points of the grid in logarithms."""
    target, reached = chance * sum(weights), 0.0
    for before, value, weight in zip(values, values[1:], weights[1:], strict=False):
        if reached + weight >= target:
            return before * math.exp(math.log(value / before) * ((target - reached) / weight if weight else 0.0))
        reached += weight
    return values[-1]


def _dispersion(observations: tuple[Count, ...]) -> tuple[float, bool]:
    """The ratio by which the counts vary more than chance explains, at least 1, and whether they contradict."""
    free, hours = len(observations) - 1, sum(run.node_hours for run in observations)
    mean = sum(run.interruptions for run in observations) / hours
    if free < 1 or mean <= 0:
        return 1.0, False
    apart = sum((run.interruptions - mean * run.node_hours) ** 2 / (mean * run.node_hours) for run in observations)
    return (apart / free, True) if apart > unlikely(free) else (1.0, False)
