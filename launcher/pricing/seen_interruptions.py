"""Interruptions of the user's own spot runs: a posterior of the rate of one node.

The prior is a gamma distribution of the assumed rate's mean, with the spread of its range in logarithms (its shape `a`
from the trigamma function). Runs on the same type add their counts, `k` interruptions in `E` node-hours, as a
Poisson number does:

    mean                (a + k) / (a / assumed + E)
    width, logarithms   that of the assumed range, times sqrt(trigamma(a + k + a E / (a / assumed + E)) / trigamma(a))

So no count ever widens the range, as a ratio, and hours without an interruption narrow it as well. A node-hour of a run
in another region counts by half (a power prior, Ibrahim and Chen 2000, Statistical Science 15:46), and a run of several
nodes by the rate of a job (`hazard.job_rate`). Runs whose counts differ by more than chance allows (chi squared over
its 99.7 % point) are named, and all of them count less by their dispersion, which widens the range again.
"""

import math
from collections.abc import Iterable
from datetime import date
from typing import NamedTuple

from launcher.model.enums import PurchaseOption
from launcher.model.learned import Learned
from launcher.model.measurement import Measurement
from launcher.planning.posterior import WITHIN, unlikely

ELSEWHERE = 0.5
"""The weight of a run in another region: a judgement."""


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
    shape = _shape((math.log(high / low) / (2.0 * WITHIN)) ** 2)
    spread, contradicts = _dispersion(observations)
    interruptions = sum(run.weight * run.interruptions for run in observations) / spread
    hours = sum(run.weight * run.node_hours for run in observations) / spread
    prior_hours = shape / mid
    evidence = shape + interruptions + shape * hours / (prior_hours + hours)
    mean = (shape + interruptions) / (prior_hours + hours)
    width = math.sqrt(trigamma(evidence) / trigamma(shape))
    runs = "; ".join(f"{run.run}: {run.interruptions} in {run.node_hours:.4g} node-hours" for run in observations)
    return Learned(
        low=mean * (low / mid) ** width,
        mid=mean,
        high=mean * (high / mid) ** width,
        runs=tuple(run.run for run in observations),
        as_of=max(run.day for run in observations),
        steps=(
            f"without a run {mid:.3g} per node-hour ({low:.2g} to {high:.2g}), worth {shape:.2g} interruptions",
            f"{runs}; those of other regions count by half",
            f"({shape:.2g} + {interruptions:.3g}) / ({prior_hours:.4g} h + {hours:.4g} h) = {mean:.3g} per node-hour",
        ),
        contradiction=runs if contradicts else "",
    )


def _dispersion(observations: tuple[Count, ...]) -> tuple[float, bool]:
    """The ratio by which the counts vary more than chance explains, at least 1, and whether they contradict."""
    free, hours = len(observations) - 1, sum(run.node_hours for run in observations)
    mean = sum(run.interruptions for run in observations) / hours
    if free < 1 or mean <= 0:
        return 1.0, False
    apart = sum((run.interruptions - mean * run.node_hours) ** 2 / (mean * run.node_hours) for run in observations)
    return (apart / free, True) if apart > unlikely(free) else (1.0, False)


def _shape(variance: float) -> float:
    """The shape of a gamma distribution whose logarithm has a given variance, by bisection.

    >>> round(_shape(trigamma(0.43)), 6)
    0.43
    """
    low, high = 1e-6, 1e6
    for _ in range(100):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if trigamma(middle) > variance else (low, middle)
    return high


def trigamma(value: float) -> float:
    """The variance of the logarithm of a gamma variable of a shape (Abramowitz and Stegun 6.4.6 and 6.4.12).

    >>> round(trigamma(1.0), 9), round(math.pi**2 / 6, 9)
    (1.644934067, 1.644934067)
    """
    total = 0.0
    while value < 10.0:  # noqa: PLR2004 - from here on the series is good to twelve digits
        total += 1.0 / value**2
        value += 1.0
    inverse = 1.0 / value
    square = inverse**2
    series = inverse + square / 2 + inverse * square * (1 / 6 - square * (1 / 30 - square * (1 / 42 - square / 30)))
    return total + series
