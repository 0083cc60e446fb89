"""The compute line of a quote: hours of the job, billed hours, and dollars, for each purchase option."""

import math
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple

from launcher.model.enums import COMMITTED, PREPAID, PurchaseOption
from launcher.model.learned import Learned
from launcher.model.money import Assumption, Price, Range, UsdRange
from launcher.model.plan import Place
from launcher.model.record import record
from launcher.model.request import PlanRequest
from launcher.model.target import target_of
from launcher.model.units import HOURS_A_YEAR, HOURS_PER_MONTH, MONTHS_A_YEAR
from launcher.model.work import Work
from launcher.planning.learned import BOOT_H
from launcher.pricing.blocks import (
    HOURS_A_DAY,
    LEAD_WEEKS,
    MIN_CHANCE,
    block_days,
    bought,
    lost_h,
    purchased_capacity,
)
from launcher.pricing.chances import chance_above
from launcher.pricing.hazard import Hazard
from launcher.pricing.idle_tail import tail_hours, tail_line
from launcher.pricing.interruptible import OnSpot, on_spot, spot_lines
from launcher.pricing.spot_prices import SpotPrice

if TYPE_CHECKING:
    from launcher.pricing.overrun import Overrun

P90 = 0.9
MIN_HOURS = 1 / 60
"""EC2 bills by the second with a minimum of 60 seconds (EC2 pricing page)."""
FOREVER_H = 1e6
"""Hours, 114 years: a longer job never ends, and is shown with this value."""
SAME = 1e-9
"""Rounding tolerance for a whole number of sets of nodes."""


class Charge(NamedTuple):
    """The compute of one candidate in the middle case, in plain numbers.

    `hours` is the job's wall time, `billed_hours` the billed time of an instance. `instances` are paid for; a
    reservation may have more than the job has nodes. `spot` is the modelled job, for spot only. `tail_h` of the billed
    hours are idle time after the job; `tail` is the estimate from the user's own runs. `unused_h` is this run's share
    of a new commitment that no job uses. An offering that is still to be bought leaves `usable_h` for the job, which
    exceeds it with the probability `outlasts`.
    """

    hours: float
    billed_hours: float
    instances: int
    spot: OnSpot | None = None
    start_h: float = BOOT_H
    tail_h: float = 0.0
    unused_h: float = 0.0
    tail: Learned | None = None
    outlasts: float = 0.0
    usable_h: float = math.inf

    @property
    def used_h(self) -> float:
        """Hours that an instance is billed for one run, without commitment hours that no job uses."""
        return self.billed_hours - self.unused_h

    @property
    def overrun_probability(self) -> float | None:
        """The chance that a job outlasts an offering that is still to be bought; None for other purchase options."""
        return None if math.isinf(self.usable_h) else self.outlasts

    @property
    def instance_hours(self) -> float:
        """Instance-hours that are paid for; of an offering, before any extension."""
        return self.billed_hours * self.instances


@record
class ComputeCost:
    """The compute of one candidate: the middle case, the ranges of hours and dollars, and a full commitment's cash.

    `explained` returns the assumptions, for the few quotes that are shown in full.
    """

    charge: Charge
    hours: Range
    usd: UsdRange
    commitment_usd: Decimal | None = None
    explained: Callable[[], tuple[Assumption, ...]] = tuple
    note: str = ""
    price_range: UsdRange | None = None
    """The range of the spot price of an instance-hour during the job."""


def charge(
    place: Place,
    work: Work,
    request: PlanRequest,
    hazard: Hazard | None,
    now: datetime,
    *,
    tail: Learned | None = None,
    longer: bool = False,
) -> Charge | None:
    """The middle case of a candidate; None when no offering is long enough for the job.

    Args:
        place: target, type, region and purchase option.
        work: the job's hours in this place without interruptions.
        request: the plan's policies on checkpoints and purchase.
        hazard: spot interruptions of the job; needed for spot only.
        now: the current time, for a window that has begun.
        tail: how long idle nodes stay according to the user's own runs; None if no run measured it.
        longer: size an offering by the high estimate instead of the middle one.
    """
    nodes, hours = place.nodes, work.hours.mid
    if place.option in PREPAID:
        known = purchased_capacity(request.purchase, place.option, nodes, now)
        if known is not None and known.window_h is not None:
            usable_h = (known.usable_h or 0.0) - boot_hours(work) if known.offered else math.inf
            return _offered(work, known.window_h, known.instances, usable_h)
        days = block_days((work.hours.high if longer else hours) + boot_hours(work), lost_h(place.option))
        if days is None:
            return None
        billed = days * HOURS_A_DAY
        usable_h = billed - lost_h(place.option) - boot_hours(work)
        if known is not None:
            fee = bought(request.purchase, place.option)
            sure = fee is not None and fee.fee_usd is not None
            return Charge(hours, billed, known.instances, usable_h=math.inf if sure else usable_h)
        return _offered(work, billed, nodes, usable_h)
    if place.option is PurchaseOption.SPOT and hazard is not None and request.workload.train is not None:
        spot = on_spot(hours, work, request, hazard.mid)
        return _stopped(min(spot.job.expected_hours, FOREVER_H), place, work, request, tail, spot=spot)
    return _stopped(hours, place, work, request, tail)


def _offered(work: Work, billed_h: float, instances: int, usable_h: float) -> Charge:
    """An offering of `billed_h` hours, with the chance that the job needs more than `usable_h`."""
    chance = 0.0 if math.isinf(usable_h) else chance_above(work.hours, usable_h)
    return Charge(work.hours.mid, billed_h, instances, outlasts=chance, usable_h=usable_h)


def _stopped(
    hours: float, place: Place, work: Work, request: PlanRequest, learned: Learned | None, *, spot: OnSpot | None = None
) -> Charge:
    """Hourly billed nodes that stop once they are idle, and the run's share of a new commitment."""
    start = start_hours(place, work)
    tail = tail_hours(place, request, hours + start, learned=learned)
    used = _billed(hours, start + tail)
    share = committed_hours(place, request, used)
    return Charge(hours, max(used, share), place.nodes, spot, start, tail, max(0.0, share - used), learned)


def compute_cost(
    place: Place,
    work: Work,
    price: Price,
    request: PlanRequest,
    *,
    middle: Charge,
    hazard: Hazard | None,
    spot: SpotPrice | None = None,
    more: "Overrun | None" = None,
) -> ComputeCost:
    """The compute of a quote: the range around a charge.

    `spot` is the range of the spot price during the job, `more` the expected overrun cost on top of an offering's fee.
    """
    per_hour = price.usd * middle.instances
    if place.option in PREPAID:
        return _offering(place, work, per_hour, request, middle=middle, more=more)
    if middle.spot is not None and hazard is not None:
        return _spot(place, work, request, middle.spot, middle=middle, hazard=hazard, price=spot or _fixed(price))
    new = is_new_commitment(place, request)
    return ComputeCost(
        charge=middle,
        hours=work.hours,
        usd=_dollars(
            *(place, work, request),
            per_hour=UsdRange(low=per_hour, mid=per_hour, high=per_hour),
            hours=work.hours,
            middle=middle,
        ),
        commitment_usd=(per_hour * HOURS_A_YEAR * (place.term_years or 1) * committed_sets(request, middle.used_h))
        if new
        else None,
        explained=lambda: _around_lines(place, work, request, middle),
    )


def is_new_commitment(place: Place, request: PlanRequest) -> bool:
    """Whether this purchase option binds the user to a term that is not paid for yet."""
    return place.option in COMMITTED and not request.purchase.owned


def whole_sets(billed_h_per_month: float) -> int:
    """Sets of the job's nodes that its runs need: one set runs 730 hours a month.

    >>> whole_sets(70.0), whole_sets(730.0), whole_sets(7_100.0)
    (1, 1, 10)
    """
    return max(1, math.ceil(billed_h_per_month / HOURS_PER_MONTH - SAME))


def committed_sets(request: PlanRequest, billed_h: float) -> int:
    """Sets of the job's nodes in a new commitment; a cluster without a job needs one.

    Args:
        request: the plan with its runs per month.
        billed_h: hours that one run is billed for, with start-up and idle tail.
    """
    train = request.workload.train
    return 1 if train is None else whole_sets(billed_h * float(train.runs_per_month))


def committed_hours(place: Place, request: PlanRequest, billed_h: float) -> float:
    """Hours of each node that one run pays of a new commitment, used or not; 0 without a commitment.

    The term of all sets of nodes is divided by the runs in the term: the job's runs, or fewer if the term's months
    hold fewer. A cluster without a job counts as one run.

    Args:
        place: target, type, region and purchase option.
        request: the plan with its runs.
        billed_h: hours that one run is billed for, with start-up and idle tail.
    """
    if not is_new_commitment(place, request):
        return 0.0
    train, years = request.workload.train, place.term_years or 1
    runs = 1.0 if train is None else min(float(train.runs), MONTHS_A_YEAR * float(train.runs_per_month) * years)
    return HOURS_A_YEAR * years * committed_sets(request, billed_h) / max(1.0, runs)


def start_hours(place: Place, work: Work, *, slow: bool = False) -> float:
    """Hours that are billed before the first step: the nodes boot, and HyperPod runs its health checks.

    If the user's own runs measured the time from submission to the first attempt, that time covers both.
    """
    guard, boot = target_of(place.target).guard, boot_hours(work)
    if guard is None or place.option in PREPAID or work.boot is not None:
        return boot
    return boot + guard.trial_hours[slow]


def boot_hours(work: Work) -> float:
    """Hours from launch to the first step, measured by the user's own runs or assumed, plus the plan's own steps."""
    return (BOOT_H if work.boot is None else work.boot.mid) + work.around_h


def around_hours(
    place: Place, work: Work, request: PlanRequest, hours: float, *, slow: bool = False, learned: Learned | None = None
) -> float:
    """Hours for which hourly billed nodes are paid before and after a job of `hours`: start-up and idle tail.

    Prepaid nodes have no tail.
    """
    start = start_hours(place, work, slow=slow)
    if place.option in PREPAID:
        return start
    return start + tail_hours(place, request, hours + start, slow=slow, learned=learned)


def _billed(hours: float, around: float) -> float:
    """The hours of the job plus the hours around the job, at least EC2's minimum."""
    return max(MIN_HOURS, hours + around)


def _dollars(
    place: Place, work: Work, request: PlanRequest, *, per_hour: UsdRange, hours: Range, middle: Charge
) -> UsdRange:
    """An hourly rate times the hours of the job, of the start-up and of the idle tail.

    The low end has no tail, for a user who removes the cluster when the job ends. Each run pays its share of a new
    commitment's term; the high end counts the sets of nodes that the longest runs need.
    """
    longest = _billed(hours.high, around_hours(place, work, request, hours.high, slow=True, learned=middle.tail))
    low = max(committed_hours(place, request, middle.used_h), _billed(hours.low, boot_hours(work)))
    high = max(middle.billed_hours, longest, committed_hours(place, request, longest))
    return UsdRange(
        low=per_hour.low * Decimal(repr(low)),
        mid=per_hour.mid * Decimal(repr(middle.billed_hours)),
        high=per_hour.high * Decimal(repr(high)),
    )


def _around_lines(place: Place, work: Work, request: PlanRequest, middle: Charge) -> tuple[Assumption, ...]:
    """Start-up and idle tail as lines of the quote, and the share of a new commitment."""
    boot_h = middle.start_h - work.around_h
    lines = [
        Assumption(
            name="start-up of the nodes, billed before the first step",
            value=f"{boot_h * 60:g}" if work.boot is None and not work.around_h else f"{boot_h * 60:.3g}",
            unit="minutes",
            source=_start_source(work, middle),
            steps=() if work.boot is None else work.boot.steps,
        ),
        tail_line(place, request, middle.tail_h, middle.tail),
    ]
    share = committed_hours(place, request, middle.used_h)
    if share:
        sets = committed_sets(request, middle.used_h)
        lines.append(
            Assumption(
                name="sets of the job's nodes in the commitment",
                value=f"{sets:,}",
                unit=f"of {place.nodes}",
                source=f"{middle.used_h:,.1f} billed hours x workload.train.runs_per_month / {HOURS_PER_MONTH:g} hours",
            )
        )
        lines.append(
            Assumption(
                name="hours of the term that each run pays for",
                value=f"{share:,.0f}",
                unit="an instance",
                source=f"{sets:,} x {place.term_years or 1} x {HOURS_A_YEAR:,} h over the runs that fall into the term"
                " (workload.train.runs, runs_per_month)",
            )
        )
    return tuple(lines)


def _offering(
    place: Place, work: Work, per_hour: Decimal, request: PlanRequest, *, middle: Charge, more: "Overrun | None"
) -> ComputeCost:
    """A Capacity Block or a training plan: the fee of the shortest offering that fits the job, unused time included.

    A purchased offering keeps its own length, or the fee that was paid, however long the job is. The fee is paid
    before the job's length is known. AWS refunds nothing, and an overrun is paid in addition to the fee.
    """
    purchased, fee = bought(request.purchase, place.option), per_hour * Decimal(repr(middle.billed_hours))
    beside, most = (Decimal(0), Decimal(0)) if more is None else (more.usd, more.max_usd)
    idle = middle.billed_hours - work.hours.mid
    spare = middle.instances - place.nodes
    note = f"billed {middle.billed_hours:g} h at least; {idle:.0f} h unused"
    if purchased is not None:
        note = f"paid for {middle.billed_hours:g} h; {max(0.0, idle):.0f} h unused"
    if more is not None and middle.outlasts >= MIN_CHANCE:
        held_high = "" if most else "holds the high estimate, "
        note += f"; {held_high}{middle.outlasts:.0%} risk of overrun, then {more.text}"
    if spare:
        note += f", and {spare} of {middle.instances} instances idle"
    lines = (_whole_line(place),) if purchased is not None else (_whole_line(place), _wait_line(place))
    return ComputeCost(
        charge=middle,
        hours=work.hours,
        usd=UsdRange(low=fee, mid=fee + beside, high=fee + max(beside, most)),
        explained=lambda: lines if more is None or not beside else (*lines, more.line),
        note=note,
    )


def _start_source(work: Work, middle: Charge) -> str:
    if work.boot is not None:
        span = f"{work.boot.low * 60:.3g} to {work.boot.high * 60:.3g} minutes"
        return f"{work.boot.source}; {span}, from the submission to the first attempt"
    checked = (
        "; deep health checks in it, of which AWS publishes no time" if middle.start_h > BOOT_H + work.around_h else ""
    )
    return f"assumption, not measured{checked}"


def _whole_line(place: Place) -> Assumption:
    """The rules of complete offerings as a line of the quote."""
    in_training_plan = place.option is PurchaseOption.TRAINING_PLAN
    return Assumption(
        name="instances are taken back before the end, at 11:30 UTC, by",
        value=f"{lost_h(place.option) * 60:g}",
        unit="minutes",
        source="SageMaker HyperPod developer guide"
        if in_training_plan
        else "EC2 user guide, Capacity Blocks for ML; paid up front",
    )


def _wait_line(place: Place) -> Assumption:
    """The start of an offering that is still to be bought, as a line of the quote."""
    in_training_plan = place.option is PurchaseOption.TRAINING_PLAN
    return Assumption(
        name="wait until it begins",
        value="not in the hours",
        unit="",
        source="a training plan begins when SageMaker offers one"
        if in_training_plan
        else f"EC2 user guide: a block begins when AWS offers one, up to {LEAD_WEEKS} weeks ahead",
    )


def _spot(
    place: Place, work: Work, request: PlanRequest, spot: OnSpot, *, middle: Charge, hazard: Hazard, price: SpotPrice
) -> ComputeCost:
    """Spot: expected hours to completion; high is the 90th percentile at the high hazard, of the slow estimate."""
    least = min(middle.hours, on_spot(work.hours.low, work, request, hazard.low).job.expected_hours)
    p90 = 0.0
    for rate in (hazard.high, hazard.mid):
        p90 = on_spot(work.hours.high, work, request, rate).job.quantile_hours(P90, least=p90)
    hours = Range(low=least, mid=middle.hours, high=min(max(middle.hours, p90), FOREVER_H))
    every = "" if spot.interval_s is None else f"saves every {duration_text(spot.interval_s)}"
    low, mid, high = (usd * middle.instances for usd in (price.usd.low, price.usd.mid, price.usd.high))
    return ComputeCost(
        charge=middle,
        hours=hours,
        usd=_dollars(place, work, request, per_hour=UsdRange(low=low, mid=mid, high=high), hours=hours, middle=middle),
        explained=lambda: (
            *price.assumptions,
            *hazard.assumptions,
            *spot_lines(spot, work),
            *_around_lines(place, work, request, middle),
        ),
        note=every or "never saves",
        price_range=price.usd,
    )


def _fixed(price: Price) -> SpotPrice:
    return SpotPrice(UsdRange(low=price.usd, mid=price.usd, high=price.usd), ())


def duration_text(seconds: float) -> str:
    """Seconds as a short readable duration.

    >>> duration_text(2.5), duration_text(840), duration_text(9000)
    ('2.5 s', '14 min', '2.5 h')
    """
    if seconds < 90:  # noqa: PLR2004 - a minute and a half
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"  # noqa: PLR2004 - an hour and a half
