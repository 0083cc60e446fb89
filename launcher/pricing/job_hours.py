"""What a job's wall hours depend on: its speed, failures and restarts, interruptions, and the hours before it."""

import math

from launcher.model.money import Range
from launcher.model.request import PlanRequest
from launcher.model.work import Work
from launcher.planning.start_up import WITHIN
from launcher.pricing.hazard import Hazard
from launcher.pricing.interruptible import OnSpot, on_spot, saving_share
from launcher.pricing.joint import NO_LOSSES, JobHours, Losses, Spread, spread_of
from launcher.pricing.normal import Z_OF_THE_ENDS
from launcher.pricing.segments import Segments, lost

FOREVER_H = 1e6
"""Hours, 114 years: a longer job never ends, and is shown with this value."""


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
    if interval_s is None:
        variance = lost(Segments(full=0, length=bare_h, last=bare_h, rate=work.failures_per_h, lag=0.0), restart_h)[1]
    else:
        again_h = min(interval_s / 3600, bare_h)
        one = restart_h + again_h / 2
        square = restart_h**2 + restart_h * again_h + again_h**2 / 3
        variance = events * square * (mean / events / one) ** 2 if one > 0.0 else 0.0
    return Losses(math.exp(-events), mean, variance, min(restart_h, mean))


def start_spread(
    boot: Range, trial_h: tuple[float, float], fixed_h: float, fetch: Range | None
) -> tuple[float, Spread]:
    """Hours before the first step, the middle and its spread: start-up, health checks, and the plan's own steps.

    Args:
        boot: start-up, with its 5th and 95th percentile.
        trial_h: health checks, the middle and the high case.
        fixed_h: the plan's own steps, of known length.
        fetch: what the nodes fetch from outside AWS.
    """
    nearer = Z_OF_THE_ENDS / WITHIN
    low, high = (boot.mid * (end / boot.mid) ** nearer for end in (boot.low, boot.high))
    trials = (trial_h[0], *trial_h)
    fetched = (0.0, 0.0, 0.0) if fetch is None else (fetch.low, fetch.mid, fetch.high)
    parts = zip((low, boot.mid, high), trials, fetched, strict=True)
    around = tuple(sum(part) + fixed_h for part in parts)
    return around[1], spread_of(*around)
