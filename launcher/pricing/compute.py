"""The compute line of a quote: hours of the job, hours that are paid for, and dollars, for each way of buying."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import NamedTuple

from launcher.model.enums import PurchaseOption
from launcher.model.money import Assumption, Price, Range, UsdRange
from launcher.model.plan import Place
from launcher.model.request import PlanRequest
from launcher.model.work import Work
from launcher.pricing.blocks import HOURS_A_DAY, LEAD_WEEKS, block_days, bought, held, lost_h
from launcher.pricing.hazard import Hazard
from launcher.pricing.interruptible import OnSpot, on_spot, spot_lines

BOOT_H = 0.15
"""From launch to the first step on a new machine, 9 minutes, paid for without progress: from memory, not measured."""
P90 = 0.9
LEAST_HOURS = 1 / 60
"""EC2 bills by the second with a minimum of 60 seconds (EC2 pricing page)."""
FOREVER_H = 1e6
"""Hours, 114 years: what takes longer never ends, and is shown as this."""
HOURS_A_YEAR = 8760
WHOLE = (PurchaseOption.CAPACITY_BLOCK, PurchaseOption.TRAINING_PLAN)
"""Ways of buying that are paid for as whole offerings."""


class Charge(NamedTuple):
    """What the machines of one candidate cost in the middle case, in plain numbers.

    `hours` is the job's wall time, `billed_hours` what an instance is paid for; `instances` are paid for, which a
    reservation may have more of than the job has nodes. `spot` is the job as it was modelled, on spot alone.
    """

    hours: float
    billed_hours: float
    instances: int
    spot: OnSpot | None = None

    @property
    def instance_hours(self) -> float:
        """Instance-hours that are paid for."""
        return self.billed_hours * self.instances


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeCost:
    """The compute of one candidate: its middle case, the range of hours and dollars, and a whole commitment's cash."""

    charge: Charge
    hours: Range
    usd: UsdRange
    commitment_usd: Decimal | None = None
    assumptions: tuple[Assumption, ...] = ()
    note: str = ""


def charge(place: Place, work: Work, request: PlanRequest, hazard: Hazard | None, now: datetime) -> Charge | None:
    """The middle case of a candidate; None when no offering is long enough for it.

    Args:
        place: where and how.
        work: the hours it takes there without interruptions.
        request: the plan's policies on checkpoints and purchase.
        hazard: spot interruptions of the job; needed for spot alone.
        now: the moment, for a window that has begun.
    """
    nodes, hours = place.nodes, work.hours.mid
    if place.option in WHOLE:
        known = held(request.purchase, place.option, nodes, now)
        if known is not None and known.window_h is not None:
            return Charge(hours, known.window_h, known.instances)
        days = block_days(hours + BOOT_H, lost_h(place.option))
        return None if days is None else Charge(hours, days * HOURS_A_DAY, known.instances if known else nodes)
    if place.option is PurchaseOption.SPOT and hazard is not None and request.workload.train is not None:
        told = on_spot(hours, work, request, hazard.mid)
        expected = min(told.job.expected_hours, FOREVER_H)
        return Charge(expected, _billed(expected), nodes, told)
    return Charge(hours, _billed(hours), nodes)


def compute_cost(
    place: Place, work: Work, price: Price, request: PlanRequest, *, middle: Charge, hazard: Hazard | None
) -> ComputeCost:
    """The range around a charge: the compute as a quote has it."""
    per_hour = price.usd * middle.instances
    if place.option in WHOLE:
        return _offering(place, work, per_hour, request, middle)
    if middle.spot is not None and hazard is not None:
        return _spot(work, per_hour, request, middle, hazard)
    committed = place.option in (PurchaseOption.SAVINGS_PLAN, PurchaseOption.RESERVED) and not request.purchase.owned
    return ComputeCost(
        charge=middle,
        hours=work.hours,
        usd=_dollars(per_hour, work.hours),
        commitment_usd=per_hour * HOURS_A_YEAR * (place.term_years or 1) if committed else None,
        assumptions=(_boot_line(),),
    )


def _billed(hours: float) -> float:
    """Job hours with the start-up that is billed before them, at least EC2's minimum."""
    return max(LEAST_HOURS, hours + BOOT_H)


def _dollars(per_hour: Decimal, hours: Range) -> UsdRange:
    """An hourly rate times job hours and the start-up before them."""
    low, mid, high = (per_hour * Decimal(repr(_billed(each))) for each in (hours.low, hours.mid, hours.high))
    return UsdRange(low=low, mid=mid, high=high)


def _boot_line() -> Assumption:
    """Start-up time as a line of the quote."""
    return Assumption(
        name="start-up of the machines, billed before the first step",
        value=f"{BOOT_H * 60:g}",
        unit="minutes",
        source="assumption, not measured",
    )


def _offering(place: Place, work: Work, per_hour: Decimal, request: PlanRequest, middle: Charge) -> ComputeCost:
    """A Capacity Block or a training plan: the fee of the shortest offering that holds the job, unused tail included.

    One that is bought already has its own length, or the fee that was paid for it, however long the job is.
    """
    own = bought(request.purchase, place.option)
    paid = [middle.billed_hours] * 3
    if own is None or (own.ends_at is None and own.fee_usd is None):
        lost = lost_h(place.option)
        days = [block_days(each + BOOT_H, lost) for each in (work.hours.low, work.hours.high)]
        low, high = (middle.billed_hours if each is None else each * HOURS_A_DAY for each in days)
        paid = [low, middle.billed_hours, high]
    usd = UsdRange(
        low=per_hour * Decimal(repr(paid[0])),
        mid=per_hour * Decimal(repr(paid[1])),
        high=per_hour * Decimal(repr(paid[2])),
    )
    idle = middle.billed_hours - work.hours.mid
    spare = middle.instances - place.nodes
    note = f"billed {middle.billed_hours:g} h at least; {idle:.0f} unused"
    if own is not None:
        note = f"paid for {middle.billed_hours:g} h; {max(0.0, idle):.0f} unused"
    if spare:
        note += f", and {spare} of {middle.instances} instances idle"
    lines = (_whole_line(place),) if own is not None else (_whole_line(place), _wait_line(place))
    return ComputeCost(charge=middle, hours=work.hours, usd=usd, assumptions=lines, note=note)


def _whole_line(place: Place) -> Assumption:
    """The rules of whole offerings as a line of the quote."""
    plan = place.option is PurchaseOption.TRAINING_PLAN
    return Assumption(
        name="instances are taken back before the end, at 11:30 UTC, by",
        value=f"{lost_h(place.option) * 60:g}",
        unit="minutes",
        source="SageMaker HyperPod developer guide"
        if plan
        else "EC2 user guide, Capacity Blocks for ML; paid up front",
    )


def _wait_line(place: Place) -> Assumption:
    """When an offering that is still to be bought begins, as a line of the quote."""
    plan = place.option is PurchaseOption.TRAINING_PLAN
    return Assumption(
        name="wait until it begins",
        value="not in the hours",
        unit="",
        source="a training plan begins when SageMaker offers one"
        if plan
        else f"EC2 user guide: a block begins when AWS offers one, up to {LEAD_WEEKS} weeks ahead",
    )


def _spot(work: Work, per_hour: Decimal, request: PlanRequest, middle: Charge, hazard: Hazard) -> ComputeCost:
    """Spot: expected hours to completion; high is the 90th percentile at the middle hazard, of the slow estimate."""
    told = middle.spot
    assert told is not None  # noqa: S101 - the caller has looked
    least = min(middle.hours, on_spot(work.hours.low, work, request, hazard.low).job.expected_hours)
    p90 = max(middle.hours, on_spot(work.hours.high, work, request, hazard.mid).job.quantile_hours(P90))
    hours = Range(low=least, mid=middle.hours, high=min(p90, FOREVER_H))
    every = "" if told.interval_s is None else f"saves every {duration_words(told.interval_s)}"
    return ComputeCost(
        charge=middle,
        hours=hours,
        usd=_dollars(per_hour, hours),
        assumptions=(*hazard.assumptions, *spot_lines(told), _boot_line()),
        note=every or "never saves",
    )


def duration_words(seconds: float) -> str:
    """Seconds as a person says them.

    >>> duration_words(2.5), duration_words(840), duration_words(9000)
    ('2.5 s', '14 min', '2.5 h')
    """
    if seconds < 90:  # noqa: PLR2004 - a minute and a half
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"  # noqa: PLR2004 - an hour and a half
