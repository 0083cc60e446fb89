"""A job on spot: its checkpoints, failures and interruptions, as input of the closed form in `spot`."""

import math
from typing import NamedTuple

from launcher.agent.interval import daly_interval_s, overhead_fraction
from launcher.model.enums import CheckpointMode
from launcher.model.money import Assumption
from launcher.model.request import PlanRequest
from launcher.model.units import HOUR_S, duration_text
from launcher.model.work import Work
from launcher.planning.goodput import UNKNOWN_WRITE_S
from launcher.planning.start_up import RESTART_H
from launcher.pricing.spot import Interruptible

NOTICE_H = 115 / 3600
"""EC2 gives a spot notice two minutes ahead (EC2 user guide); the agent sees it up to five seconds later."""
MIN_WRITE_S = 0.1
"""The minimum time of a write: opening files and the rename take time."""
STORED_PER_WRITTEN = 2.0
"""A checkpoint is written to the node's disk, then uploaded; both are assumed at about 1 GB/s a node, so it is stored
after twice the time of the write."""
A_DAY_S = 86_400.0
MIN_INTERVAL_S = 1e-3
MAX_OVERHEAD = 1e6
"""Limit of the overhead: if failures alone make a job a million times longer, its exact length is of no use."""


class OnSpot(NamedTuple):
    """The job, and the seconds of work between its checkpoints; None when the job never saves.

    `saving` and `failing` are the time that its own checkpoints and its failures add, as shares of the hours without
    either.
    """

    job: Interruptible
    interval_s: float | None
    saving: float
    failing: float


def on_spot(work_h: float, work: Work, request: PlanRequest, rate: float) -> OnSpot:
    """The job of `work_h` hours under `rate` interruptions an hour, at the plan's checkpoint interval or the best one.

    `work_h` contains the failures and checkpoints of a job without spot interruptions; they are removed and added
    again at the interval for spot. Hours of progress given by the plan already contain its usual checkpoints: those
    at the plan's interval, or at any interval if a notice saves everything. The automatic interval is Daly's for all
    events that lose work: failures alone if a notice saves the rest, failures and interruptions otherwise.
    """
    write_s = _write_s(work)
    stored_h, restart_h = _stored_h(work), (RESTART_H if work.restart is None else work.restart.mid)
    if request.checkpoint.mode is CheckpointMode.NONE:
        never = Interruptible(
            work=work_h, interval=work_h, stall=0, write=0, hazard=rate, notice=0, restart=restart_h, saves=False
        )
        return OnSpot(never, None, 0.0, work.failure_overhead)
    lossless = stored_h <= NOTICE_H
    interval_s = _interval_s(write_s, work, request, rate)
    bare_h = work_h / (1 + work.failure_overhead)
    counted = work.training is None and (lossless or request.checkpoint.interval is not None)
    share = _overhead(write_s, interval_s, work)
    if counted:
        share = max(0.0, share - write_s / interval_s)
    # A segment of work stretches by what failures add to it; its own checkpoint is counted apart, at its end.
    stall_h = 0.0 if counted else min(write_s, interval_s * share) / 3600
    job = Interruptible(
        work=bare_h * (1 + share - stall_h * 3600 / interval_s),
        interval=interval_s / 3600 * (1 + share) - stall_h,
        stall=stall_h,
        write=stored_h,
        hazard=rate,
        notice=NOTICE_H,
        restart=restart_h,
    )
    saving = 0.0 if counted else min(write_s / interval_s, share)
    return OnSpot(job, interval_s, saving, share - saving)


def losses_per_h(work: Work, rate: float) -> float:
    """Events an hour that lose work, the input of the automatic interval.

    Failures alone if a notice saves the rest; failures and `rate` interruptions an hour otherwise.
    """
    lossless = _stored_h(work) <= NOTICE_H
    return work.failures_per_h + (0.0 if lossless and work.failures_per_h else rate)


def saving_share(work: Work) -> float:
    """The time of checkpoints in a job's hours without spot, as a share of the hours without checkpoints and failures.

    Hours of progress that the plan gives contain them.
    """
    if work.training is None or work.checkpoint_interval_s is None:
        return 0.0
    return min(_write_s(work) / work.checkpoint_interval_s, work.failure_overhead)


def _write_s(work: Work) -> float:
    return UNKNOWN_WRITE_S if work.checkpoint_write_s is None else max(MIN_WRITE_S, work.checkpoint_write_s.mid)


def _stored_h(work: Work) -> float:
    """Hours from the start of a checkpoint until it is in the store."""
    return STORED_PER_WRITTEN * _write_s(work) / 3600


def _interval_s(write_s: float, work: Work, request: PlanRequest, rate: float) -> float:
    if request.checkpoint.interval is not None:
        return max(MIN_INTERVAL_S, request.checkpoint.interval)
    losing = losses_per_h(work, rate)
    return min(A_DAY_S, daly_interval_s(checkpoint_s=write_s, mtbf_s=3600 / losing)) if losing > 0 else A_DAY_S


def _overhead(write_s: float, interval_s: float, work: Work) -> float:
    mtbf_s = 3600 / work.failures_per_h if work.failures_per_h > 0 else math.inf
    share = overhead_fraction(
        checkpoint_s=write_s, interval_s=interval_s, mtbf_s=mtbf_s, restart_s=work.failure_restart_h * 3600
    )
    return min(share, MAX_OVERHEAD)


def spot_lines(spot: OnSpot, work: Work) -> tuple[Assumption, ...]:
    """The assumptions behind the spot estimate, for the quote."""
    job, known = spot.job, work.restart
    source = "published restarts take 5 to 30 minutes; waiting for spot capacity is not in it"
    if known is not None:
        source = f"{known.source}; {known.low * 60:.3g} to {known.high * 60:.3g} minutes"
    restart = Assumption(
        name="restart after an interruption, billed",
        value=f"{RESTART_H * 60:g}" if known is None else f"{known.mid * 60:.3g}",
        unit="minutes",
        source=source,
        steps=() if known is None else known.steps,
    )
    if spot.interval_s is None:
        return (restart,)
    effect = "keeps all work up to the notice" if job.lossless else "goes back to the last stored checkpoint"
    return (
        Assumption(
            name="checkpoint written and stored",
            value=duration_text(job.write * HOUR_S),
            unit="",
            source=f"against {NOTICE_H * 3600:.0f} s of notice (EC2 user guide): the job {effect}",
        ),
        Assumption(
            name="checkpoint interval", value=duration_text(spot.interval_s), unit="", source="Young 1974, Daly 2006"
        ),
        restart,
    )
