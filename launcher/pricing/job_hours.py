"""What a job's wall hours depend on: its speed, failures and restarts, interruptions, and the hours before it."""

import math
from functools import lru_cache
from typing import TypeAlias

from launcher.model.request import PlanRequest
from launcher.model.work import Work
from launcher.planning.start_up import WITHIN
from launcher.pricing.hazard import Hazard
from launcher.pricing.interruptible import OnSpot, on_spot, saving_share
from launcher.pricing.joint import NO_LOSSES, JobHours, Losses, Spread, spread_of
from launcher.pricing.normal import Z_OF_THE_ENDS

FOREVER_H = 1e6
"""Hours, 114 years: a longer job never ends, and is shown with this value."""
Cases: TypeAlias = tuple[float, float, float]
"""Hours in the low, the middle and the high case: plain numbers, because a record's hash takes long."""


def job_hours(work: Work, request: PlanRequest, hazard: Hazard | None) -> tuple[JobHours, OnSpot | None]:
    """The job, and on spot the model of its interruptions.

    Args:
        work: the hours of the job without interruptions.
        request: the plan's policies on checkpoints.
        hazard: of the job on spot; None for other purchase options, and for a cluster without a job.
    """
    spot = None
    if hazard is not None and request.workload.train is not None:
        spot = on_spot(work.hours.mid, work, request, hazard.mid)
    bare_h = work.hours.mid / (1 + work.failure_overhead)
    if spot is None:
        interval_s, saving = work.checkpoint_interval_s, saving_share(work)
        failing = work.failure_overhead - saving
    else:
        interval_s, saving, failing = spot.interval_s, spot.saving, spot.failing
    running_h = bare_h * (1 + saving)
    failures = _failures(work, bare_h, failing, interval_s)
    interruptions, rate = NO_LOSSES if spot is None else spot.job.losses, Spread()
    if hazard is not None:
        rate = spread_of(hazard.low, hazard.mid, hazard.high)
    if not running_h + failures.mean + interruptions.mean < FOREVER_H:
        return JobHours(FOREVER_H), spot
    if work.training is not None:
        speed = spread_of(work.hours.low, work.hours.mid, work.hours.high)
        return JobHours(running_h, speed, failures, interruptions, interruption_rate=rate), spot
    # The range of hours that the plan gives is that of its failures, which are counted as losses.
    failing_rate = Spread()
    if work.hours.low < work.hours.mid < work.hours.high:
        wide = math.log((work.hours.high - work.hours.low) / (work.hours.mid - work.hours.low))
        failing_rate = Spread(wide, wide)
    return JobHours(running_h, Spread(), failures, interruptions, failing_rate, rate), spot


def _failures(work: Work, bare_h: float, share: float, interval_s: float | None) -> Losses:
    """Failures of a job, each with its restart and the work since the last checkpoint (all of it without one).

    Their mean is that of the estimate (Daly 2006).
    """
    events, restart_h = work.failures_per_h * bare_h, work.failure_restart_h
    mean = bare_h * share
    if events <= 0.0 or mean <= 0.0:
        return NO_LOSSES
    parts = 1.0 if interval_s is None else bare_h * 3600 / interval_s
    again_h = bare_h / max(1.0, parts)
    one = restart_h + again_h / 2
    whole = Losses(events, 1.0, 0.0, restart_h, parts, repeated=interval_s is None)
    scale = mean / whole.expected_events / one if one > 0.0 else 0.0
    return whole._replace(one=one * scale, variance_of_one=(again_h * scale) ** 2 / 12, least=restart_h * scale)


@lru_cache(maxsize=1024)
def start_spread(boot: Cases, trial_h: tuple[float, float], fixed_h: float, fetch: Cases) -> tuple[float, Spread]:
    """Hours before the first step, the middle and its spread: start-up, health checks, and the plan's own steps.

    Args:
        boot: start-up, with its 5th and 95th percentile.
        trial_h: health checks, the middle and the high case.
        fixed_h: the plan's own steps, of known length.
        fetch: what the nodes fetch from outside AWS.
    """
    nearer, middle = Z_OF_THE_ENDS / WITHIN, boot[1]
    low, high = (middle * (end / middle) ** nearer for end in (boot[0], boot[2]))
    trials = (trial_h[0], *trial_h)
    parts = zip((low, middle, high), trials, fetch, strict=True)
    totals = tuple(sum(part) + fixed_h for part in parts)
    return totals[1], spread_of(*totals)
