"""Boot, restart and idle-tail hours from the user's own runs: a posterior, in logarithms, as for the rate.

The prior is the assumption of a quote without any run, with its spread. A run is one observation of the same
quantity, or the mean of several restarts; two starts of the same nodes differ by START_TO_START. Both are weighted by
the inverse of their variance. Runs that contradict each other widen the range by the variance between them and are
named (`launcher.planning.posterior` has the test); no other run ever widens the range.
"""

import math
from collections.abc import Iterable, Sequence
from datetime import date
from typing import NamedTuple

from launcher.model.learned import Learned
from launcher.model.measurement import Measurement
from launcher.model.money import Range
from launcher.model.units import HOUR_S
from launcher.planning.posterior import variance_between
from launcher.planning.start_up import BOOT_RANGE_H, RESTART_RANGE_H, WITHIN

START_TO_START = 0.3
"""Two starts of the same nodes differ by this much, in logarithms: a judgement."""
MIN_S, MAX_S = 60.0, 2.0 * HOUR_S
"""A shorter start reused running nodes, and a longer one waited for capacity, which is not billed: neither measures
the boot time."""
TAIL_SPREAD = 2.0
"""The idle tail lies between half and twice its assumed value, as the 5 % and 95 % points: a judgement."""
SAME_TAIL = 1e-6
"""Hours by which two assumptions of the idle tail may differ and still count as equal."""


class MeasuredHours(NamedTuple):
    """Measured hours of one run, the mean of `starts` starts."""

    run: str
    hours: float
    starts: int
    day: date


def learned_boot(instance_type: str, measured: Iterable[Measurement]) -> Learned | None:
    """Hours from the submission to the first attempt on a type; None if no run measured them."""
    observations = [
        MeasuredHours(measurement.run, measurement.boot_s / HOUR_S, 1, measurement.measured_at.date())
        for measurement in _same_type(instance_type, measured)
        if measurement.boot_s is not None and MIN_S <= measurement.boot_s <= MAX_S
    ]
    return learned_hours(BOOT_RANGE_H, observations)


def learned_restart(instance_type: str, measured: Iterable[Measurement]) -> Learned | None:
    """Hours from the loss of nodes of a type to the next attempt with its checkpoint read; None without such a run."""
    observations = [
        MeasuredHours(
            measurement.run, measurement.restart_s / HOUR_S, measurement.restarts or 1, measurement.measured_at.date()
        )
        for measurement in _same_type(instance_type, measured)
        if measurement.restart_s is not None and MIN_S <= measurement.restart_s <= MAX_S
    ]
    return learned_hours(RESTART_RANGE_H, observations)


def learned_tail(target: str, assumed_h: float, measured: Iterable[Measurement]) -> Learned | None:
    """Hours that a node stays after its job, from runs with the same target and idle time; None without such a run.

    Args:
        target: the target, which determines what stops idle nodes.
        assumed_h: the assumed hours from the plan's guardrails, above 0.
        measured: the runs; their instance type does not matter.
    """
    observations = [
        MeasuredHours(measurement.run, measurement.idle_tail_h, 1, measurement.measured_at.date())
        for measurement in measured
        if not measurement.simulated
        and measurement.target == target
        and measurement.idle_tail_h
        and measurement.idle_tail_assumed_h is not None
        and abs(measurement.idle_tail_assumed_h - assumed_h) < SAME_TAIL
    ]
    return learned_hours(Range(low=assumed_h / TAIL_SPREAD, mid=assumed_h, high=assumed_h * TAIL_SPREAD), observations)


def _same_type(instance_type: str, measured: Iterable[Measurement]) -> Iterable[Measurement]:
    return (
        measurement
        for measurement in measured
        if measurement.instance_type == instance_type and not measurement.simulated
    )


def learned_hours(prior: Range, observations: Sequence[MeasuredHours]) -> Learned | None:
    """The posterior of hours; None without a run.

    Args:
        prior: the 5 %, 50 % and 95 % points without any run, above 0.
        observations: the runs.
    """
    if not observations:
        return None
    scale = math.log(prior.high / prior.low) / (2.0 * WITHIN)
    logs = [math.log(observation.hours) for observation in observations]
    variances = [START_TO_START**2 / observation.starts for observation in observations]
    apart, contradicts = variance_between(logs, variances)
    weights = [1.0 / (variance + apart) for variance in variances]
    together = 1.0 / scale**2 + sum(weights)
    middle = math.log(prior.mid) / scale**2 + sum(w * x for w, x in zip(weights, logs, strict=True))
    mid, reach = math.exp(middle / together), WITHIN * math.sqrt(1.0 / together + apart)
    runs = "; ".join(f"{observation.run}: {observation.hours * 60:.3g} min" for observation in observations)
    return Learned(
        low=mid * math.exp(-reach),
        mid=mid,
        high=mid * math.exp(reach),
        runs=tuple(observation.run for observation in observations),
        as_of=max(observation.day for observation in observations),
        steps=(
            f"without a run {prior.mid * 60:.4g} min ({prior.low * 60:.3g} to {prior.high * 60:.3g})",
            f"{runs}; each by the inverse of its variance, two starts of a kind differ by {START_TO_START:.0%}",
        ),
        contradiction=runs if contradicts else "",
    )
