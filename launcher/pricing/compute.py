"""The compute line of a quote: hours of the job, hours that are paid for, and dollars, for each way of buying."""

from dataclasses import dataclass
from decimal import Decimal

from launcher.agent.interval import daly_interval_s
from launcher.model.enums import PurchaseOption
from launcher.model.money import Assumption, Price, Range, UsdRange
from launcher.model.plan import Place
from launcher.model.request import PlanRequest
from launcher.model.work import Work
from launcher.pricing.blocks import block_days
from launcher.pricing.hazard import Hazard
from launcher.pricing.spot import Interruptible

NOTICE_H = 115 / 3600
"""A spot notice is given two minutes ahead (EC2 user guide); up to five seconds go by until the agent sees it."""
RESTART_H = 0.25
"""From the loss of the machines to the first step after the restore, 15 minutes: a choice within the 5 to 30 minutes of
published restarts. Waiting for spot capacity itself is not in it. All of it is billed, as survivors are."""
BOOT_H = 0.15
"""From launch to the first step on a new machine, 9 minutes, paid for without progress: from memory, not measured."""
UNKNOWN_WRITE_S = 60.0
"""Seconds to write a checkpoint when the workload does not say what is in it: an assumption."""
LEAST_WRITE_S = 0.1
"""A write is never taken as shorter: opening files and the rename are not free."""
STORED_PER_WRITTEN = 2.0
"""A checkpoint is written to the node's disk, then uploaded; both are taken at about 1 GB/s a node, so it is stored
after twice the time of the write."""
P90 = 0.9
LEAST_HOURS = 1 / 60
"""EC2 bills by the second with a minimum of 60 seconds (EC2 pricing page)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeCost:
    """The compute of one candidate: job hours, hours an instance is paid for, dollars, and what spot does to it."""

    hours: Range
    billed_hours: float
    usd: UsdRange
    commitment_usd: Decimal | None = None
    spot: "SpotCost | None" = None
    assumptions: tuple[Assumption, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotCost:
    """Interruptions in the middle case: the job as it was modelled, and its dollars at the 90th percentile."""

    job: Interruptible
    usd_p90: Decimal
    hazard: Hazard


def compute_cost(
    place: Place, work: Work, price: Price, request: PlanRequest, hazard: Hazard | None
) -> ComputeCost | None:
    """The compute of a candidate; None when no offering is long enough for it.

    Args:
        place: where and how.
        work: the hours it takes there without interruptions.
        price: one instance-hour.
        request: the plan's policies on checkpoints and purchase.
        hazard: spot interruptions of the job; needed for spot alone.
    """
    per_hour = price.usd * place.nodes
    if place.option is PurchaseOption.SPOT and hazard is not None:
        return _spot(work, per_hour, request, hazard)
    if place.option is PurchaseOption.CAPACITY_BLOCK:
        return _block(work, per_hour, request)
    paid = _with_boot(work.hours)
    cash = None
    if place.option in (PurchaseOption.SAVINGS_PLAN, PurchaseOption.RESERVED) and not request.purchase.owned:
        cash = per_hour * 8760 * (place.term_years or 1)
    return ComputeCost(
        hours=work.hours,
        billed_hours=paid.mid,
        usd=_dollars(per_hour, paid),
        commitment_usd=cash,
        assumptions=(_boot_line(),),
    )


def _with_boot(hours: Range) -> Range:
    """Job hours with the start-up that is billed before them, at least EC2's minimum."""
    low, mid, high = (max(LEAST_HOURS, each + BOOT_H) for each in (hours.low, hours.mid, hours.high))
    return Range(low=low, mid=mid, high=high)


def _dollars(per_hour: Decimal, hours: Range) -> UsdRange:
    """An hourly rate times hours."""
    low, mid, high = (per_hour * Decimal(repr(each)) for each in (hours.low, hours.mid, hours.high))
    return UsdRange(low=low, mid=mid, high=high)


def _boot_line() -> Assumption:
    """Start-up time as a line of the quote."""
    return Assumption(
        name="start-up of the machines, billed before the first step",
        value=f"{BOOT_H * 60:g}",
        unit="minutes",
        source="assumption, not measured",
    )


def _block(work: Work, per_hour: Decimal, request: PlanRequest) -> ComputeCost | None:
    """A Capacity Block: the fee of the shortest offering that holds the job, unused tail included.

    With `reservation.fee_usd` in the plan that is the price, however long the job is.
    """
    low, mid, high = (block_days(each + BOOT_H) for each in (work.hours.low, work.hours.mid, work.hours.high))
    reservation = request.purchase.reservation
    if reservation is not None and reservation.fee_usd is not None:
        fee = reservation.fee_usd
        billed = float(fee / per_hour) if per_hour else work.hours.mid
        return ComputeCost(
            hours=work.hours,
            billed_hours=billed,
            usd=UsdRange(low=fee, mid=fee, high=fee),
            commitment_usd=None if request.purchase.owned else fee,
            note="the reservation's own fee",
        )
    if low is None or mid is None:
        return None
    paid = Range(low=low * 24.0, mid=mid * 24.0, high=(mid if high is None else high) * 24.0)
    return ComputeCost(
        hours=work.hours,
        billed_hours=paid.mid,
        usd=_dollars(per_hour, paid),
        note=f"billed {paid.mid:g} h at least; {paid.mid - work.hours.mid:.0f} unused",
    )


def interruptible(work_h: float, work: Work, request: PlanRequest, rate: float) -> Interruptible:
    """The job of `work_h` hours under `rate` interruptions an hour, at the plan's checkpoint interval or the best one.

    The automatic interval is Daly's for the interruptions that lose work. When a notice saves everything, checkpoints
    guard against failures alone; those and their stalls are in the work already.
    """
    write_s = UNKNOWN_WRITE_S if work.checkpoint_write_s is None else work.checkpoint_write_s.mid
    stored_h = STORED_PER_WRITTEN * write_s / 3600
    lossless = stored_h <= NOTICE_H
    fixed = request.checkpoint.interval
    if fixed is not None:
        interval_h, stall_h = fixed / 3600, write_s / 3600
    elif lossless:
        guard = work.checkpoint_interval_s
        interval_h, stall_h = (guard / 3600 if guard else _daly_h(write_s, rate)), 0.0
    else:
        interval_h, stall_h = _daly_h(write_s, rate), write_s / 3600
    return Interruptible(
        work=work_h, interval=interval_h, stall=stall_h, write=stored_h, hazard=rate, notice=NOTICE_H, restart=RESTART_H
    )


def _daly_h(write_s: float, rate: float) -> float:
    """Daly's interval in hours for a write time and a rate of loss; a day where nothing is lost."""
    return daly_interval_s(checkpoint_s=max(write_s, LEAST_WRITE_S), mtbf_s=3600 / rate) / 3600 if rate > 0 else 24.0


def _spot(work: Work, per_hour: Decimal, request: PlanRequest, hazard: Hazard) -> ComputeCost:
    """Spot: expected hours to completion; high is the 90th percentile at the middle hazard."""
    middle = interruptible(work.hours.mid, work, request, hazard.mid)
    expected = middle.expected_hours
    least = min(expected, interruptible(work.hours.low, work, request, hazard.low).expected_hours)
    p90 = max(expected, interruptible(work.hours.high, work, request, hazard.mid).quantile_hours(P90))
    hours = Range(low=least, mid=expected, high=p90)
    paid = _with_boot(hours)
    usd = _dollars(per_hour, paid)
    return ComputeCost(
        hours=hours,
        billed_hours=paid.mid,
        usd=usd,
        spot=SpotCost(job=middle, usd_p90=usd.high, hazard=hazard),
        assumptions=(*hazard.assumptions, *_spot_lines(middle), _boot_line()),
        note=f"saves every {_duration(middle.interval * 3600)}",
    )


def _spot_lines(job: Interruptible) -> tuple[Assumption, ...]:
    """What the spot arithmetic rests on, for the quote."""
    kept = "keeps all work up to the notice" if job.lossless else "goes back to the last stored checkpoint"
    return (
        Assumption(
            name="checkpoint written and stored",
            value=f"{job.write * 3600:.3g}",
            unit="s",
            source=f"against {NOTICE_H * 3600:.0f} s of notice (EC2 user guide): the job {kept}",
        ),
        Assumption(
            name="checkpoint interval",
            value=f"{job.interval * 3600:.4g}",
            unit="s",
            source="Young 1974, Daly 2006",
        ),
        Assumption(
            name="restart after an interruption, billed",
            value=f"{RESTART_H * 60:g}",
            unit="minutes",
            source="published restarts take 5 to 30 minutes; waiting for spot capacity is not in it",
        ),
    )


def _duration(seconds: float) -> str:
    """Seconds as a person says them.

    >>> _duration(2.5), _duration(840), _duration(9000)
    ('2.5 s', '14 min', '2.5 h')
    """
    if seconds < 90:  # noqa: PLR2004 - a minute and a half
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"  # noqa: PLR2004 - an hour and a half
