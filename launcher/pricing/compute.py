"""The compute line of a quote: hours of the job and billed hours, for each purchase option."""

import math
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from functools import lru_cache
from typing import NamedTuple

from launcher.model.enums import COMMITTED, PREPAID, PurchaseOption
from launcher.model.hyperpod import CHECK_MINUTES
from launcher.model.learned import Learned
from launcher.model.money import Assumption, Price, Range, UsdRange
from launcher.model.plan import Place
from launcher.model.record import record
from launcher.model.request import PlanRequest
from launcher.model.units import HOURS_A_YEAR, HOURS_PER_MONTH, MONTHS_A_YEAR
from launcher.model.work import Work
from launcher.planning.fetching import fetching_lines
from launcher.planning.start_up import BOOT_H, BOOT_RANGE_H
from launcher.pricing.blocks import (
    HOURS_A_DAY,
    LEAD_WEEKS,
    block_days,
    bought_capacity,
    lost_h,
    purchased_capacity,
)
from launcher.pricing.hazard import Hazard
from launcher.pricing.idle_tail import tail_hours, tail_line
from launcher.pricing.interruptible import OnSpot, spot_lines
from launcher.pricing.job_hours import FOREVER_H, job_hours, start_spread
from launcher.pricing.joint import (
    HIGH,
    LOW,
    MIDDLE,
    JobHours,
    Outcomes,
    RandomPrice,
    Smooth,
    Spread,
    add_start,
    median_shift,
    wall_hours,
)
from launcher.pricing.spot_prices import SpotPrice
from launcher.targets.registry import target_of

MIN_HOURS = 1 / 60
"""EC2 bills by the second with a minimum of 60 seconds (EC2 pricing page)."""
START_MATTERS = 0.03
"""A start-up whose spread is a smaller share of the job's hours adds its median to theirs."""
LEAST_SHIFT = 0.005
"""A smaller difference between the median of a sum or product and that of the medians is left out."""
LEAST_LONGER = 0.015
"""The same for a job of given hours, whose lines keep them if they can."""
SAME = 1e-9
"""Rounding tolerance for a whole number of sets of nodes."""


class Charge(NamedTuple):
    """The compute of one candidate at its median, in plain numbers, and the job whose distribution it is from."""

    # The median of the job's wall time.
    hours: float
    # The job's hours in the lines of the bill, which add up to the median of the dollars.
    line_h: float
    # The billed time of an instance.
    billed_hours: float
    # Paid for; a reservation may have more than the job has nodes.
    instances: int
    job: JobHours
    # The modelled job, for spot only.
    spot: OnSpot | None = None
    # Hours before the first step, with their spread, and as in the lines of the bill.
    start_h: float = BOOT_H
    start: Spread = Spread()
    line_start_h: float = BOOT_H
    # Idle time after the job, part of the billed hours.
    tail_h: float = 0.0
    # This run's share of a new commitment that no job uses.
    unused_h: float = 0.0
    # The estimate from the user's own runs.
    tail: Learned | None = None
    # The probability that the job exceeds the hours of an offering that is still to be bought.
    outlasts: float = 0.0
    # The hours that this offering leaves for the job.
    usable_h: float = math.inf

    @property
    def used_h(self) -> float:
        """Hours that an instance is billed for one run, without commitment hours that no job uses."""
        return self.billed_hours - self.unused_h

    @property
    def without_commitment(self) -> "Charge":
        """The charge of the same nodes on demand."""
        return self._replace(billed_hours=self.used_h, unused_h=0.0)

    @property
    def overrun_probability(self) -> float | None:
        """The chance that a job outlasts an offering that is still to be bought; None for other purchase options."""
        return None if math.isinf(self.usable_h) else self.outlasts

    @property
    def instance_hours(self) -> float:
        """Instance-hours that are paid for; of an offering, before any extension."""
        return self.billed_hours * self.instances

    @property
    def wall(self) -> Outcomes:
        """The distribution of the job's wall hours."""
        return wall_hours(self.job)

    def may_exceed(self, hours: float) -> bool:
        """Whether one job in ten, or more, takes longer."""
        return hours < math.inf and (self.hours > hours or self.wall.at(HIGH) > hours)

    @property
    def busy(self) -> Outcomes:
        """The distribution of the hours from the nodes' boot to the job's end."""
        return busy_hours(self.job, self.start_h, self.start)

    def shift(self, price: RandomPrice) -> float:
        """The logarithm by which a random price moves the median of the dollars."""
        return median_shift(self.busy, price)

    def at_price(self, price: RandomPrice) -> "Charge":
        """The charge whose lines add up to the median of the dollars at a random price.

        The median of a product differs from the product of the medians if one of them is skewed. Job and start-up are
        longer by the same factor.
        """
        shift = self.shift(price)
        if abs(shift) < LEAST_SHIFT:
            return self
        longer, more = math.exp(shift), (self.line_h + self.line_start_h) * math.expm1(shift)
        return self._replace(
            line_h=self.line_h * longer,
            line_start_h=self.line_start_h * longer,
            billed_hours=self.billed_hours + more,
        )


@lru_cache(maxsize=8192)
def busy_hours(job: JobHours, start_h: float, start: Spread) -> Outcomes:
    """The distribution of the hours from the nodes' boot to the job's end."""
    return add_start(wall_hours(job), start_h, start)


@record
class ComputeCost:
    """The compute of one candidate: its charge, the percentiles of its hours, and a full commitment's cash.

    `explained` returns the assumptions, for the few quotes that are shown in full.
    """

    charge: Charge
    hours: Range
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
    known_job: tuple[JobHours, OnSpot | None] | None = None,
) -> Charge | None:
    """The compute of a candidate at its median; None when no offering is long enough for the job.

    Args:
        place: target, type, region and purchase option.
        work: the job's hours in this place without interruptions.
        request: the plan's policies on checkpoints and purchase.
        hazard: spot interruptions of the job; needed for spot only.
        now: the current time, for a window that has begun.
        tail: how long idle nodes stay according to the user's own runs; None if no run measured it.
        known_job: what `job_hours` returns here, if the caller has it.
    """
    nodes = place.nodes
    job, spot = known_job or job_hours(work, request, hazard if place.option is PurchaseOption.SPOT else None)
    wall = wall_hours(job)
    hours = wall.at(MIDDLE)
    if place.option not in PREPAID:
        return _stopping_charge(place, work, request, tail, job=job, spot=spot)
    start, known = start_hours(place, work), purchased_capacity(request.purchase, place.option, nodes, now)
    if known is not None and known.window_h is not None:
        usable_h = (known.usable_h or 0.0) - boot_hours(place, work) if known.offered else math.inf
        return _offering_charge(start, job, known.window_h, known.instances, usable_h)
    days = block_days(hours + boot_hours(place, work), lost_h(place.option))
    if days is None:
        return None
    billed = days * HOURS_A_DAY
    usable_h = billed - lost_h(place.option) - boot_hours(place, work)
    if known is not None:
        fee = bought_capacity(request.purchase, place.option)
        sure = fee is not None and fee.fee_usd is not None
        bought = _offering_charge(start, job, billed, known.instances, math.inf)
        return bought if sure else bought._replace(usable_h=usable_h)
    return _offering_charge(start, job, billed, nodes, usable_h)


def _offering_charge(
    start: tuple[float, Spread], job: JobHours, billed_h: float, instances: int, usable_h: float
) -> Charge:
    """An offering of `billed_h` hours, with the chance that the job needs more than `usable_h`."""
    wall, (start_h, spread) = wall_hours(job), start
    hours, chance = wall.at(MIDDLE), 0.0 if math.isinf(usable_h) else wall.chance_above(usable_h)
    return Charge(
        hours=hours,
        line_h=hours,
        billed_hours=billed_h,
        instances=instances,
        job=job,
        start_h=start_h,
        start=spread,
        line_start_h=start_h,
        outlasts=chance,
        usable_h=usable_h,
    )


def _stopping_charge(
    place: Place, work: Work, request: PlanRequest, learned: Learned | None, *, job: JobHours, spot: OnSpot | None
) -> Charge:
    """Hourly billed nodes that stop once they are idle, and the run's share of a new commitment."""
    start, spread = start_hours(place, work)
    hours = wall_hours(job).at(MIDDLE)
    longer = _longer(job, hours, start, spread)
    line_h, line_start_h = hours * longer, start * longer
    tail = tail_hours(place, request, line_h + line_start_h, learned=learned)
    cost = Charge(
        hours=hours,
        line_h=line_h,
        billed_hours=max(MIN_HOURS, line_h + line_start_h + tail),
        instances=place.nodes,
        job=job,
        spot=spot,
        start_h=start,
        start=spread,
        line_start_h=line_start_h,
        tail_h=tail,
        tail=learned,
    )
    return with_commitment(cost, place, request)


def with_commitment(used: Charge, place: Place, request: PlanRequest) -> Charge:
    """The charge of hourly billed nodes with the run's share of a new commitment, if that is more than they use."""
    share_h = committed_hours(place, request, used.billed_hours)
    if share_h <= used.billed_hours:
        return used
    return used._replace(billed_hours=share_h, unused_h=share_h - used.billed_hours)


def _longer(job: JobHours, hours: float, start_h: float, start: Spread) -> float:
    """The median of the job and its start-up together over the sum of their medians, 1 if they hardly differ.

    They do for jobs of minutes, and for given hours if about half of the runs have a loss; else the lines have the
    hours of the plan.
    """
    given = job.speed == (0.0, 0.0)
    if isinstance(wall_hours(job), Smooth) and (given or start_h * max(start) < START_MATTERS * hours):
        return 1.0
    longer = busy_hours(job, start_h, start).at(MIDDLE) / (hours + start_h)
    return longer if longer > 1.0 + (LEAST_LONGER if given else LEAST_SHIFT) else 1.0


def compute_cost(
    place: Place, work: Work, price: Price, request: PlanRequest, *, middle: Charge, spot: SpotPrice | None = None
) -> ComputeCost:
    """The compute of a quote: its distribution, its note and its assumptions.

    `spot` is the price during the job.
    """
    if place.option in PREPAID:
        return _offering(place, work, request, middle=middle)
    wall, new = middle.wall, is_new_commitment(place, request)
    per_hour = price.usd * middle.instances
    return ComputeCost(
        charge=middle,
        hours=_percentiles(wall),
        commitment_usd=(per_hour * HOURS_A_YEAR * (place.term_years or 1) * committed_sets(request, middle.used_h))
        if new
        else None,
        explained=lambda: (
            *(spot.assumptions if spot is not None else ()),
            *(spot_lines(middle.spot, work) if middle.spot is not None else ()),
            *_start_and_tail_lines(place, work, request, middle),
        ),
        note="" if middle.spot is None else _saves(middle.spot),
        price_range=None if spot is None else spot.usd,
    )


@lru_cache(maxsize=1024)
def _percentiles(outcomes: Outcomes) -> Range:
    """The range of hours, computed once for the places that share them."""
    low, mid, high = (min(outcomes.at(chance), FOREVER_H) for chance in (LOW, MIDDLE, HIGH))
    return Range(low=min(low, mid), mid=mid, high=max(mid, high))


def _saves(spot: OnSpot) -> str:
    return "never saves" if spot.interval_s is None else f"saves every {duration_text(spot.interval_s)}"


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


def start_hours(place: Place, work: Work) -> tuple[float, Spread]:
    """Hours that are billed before the first step: the nodes boot, and HyperPod runs its health checks.

    If the user's own runs measured the time from submission to the first attempt, that time covers both.
    """
    guard, boot = target_of(place.target).guard, work.boot
    checks = (0.0, 0.0) if guard is None or place.option in PREPAID or boot is not None else guard.trial_hours
    known = BOOT_RANGE_H if boot is None else boot
    fetch = work.fetch_hours(place)
    fetched = (0.0, 0.0, 0.0) if fetch is None else (fetch.low, fetch.mid, fetch.high)
    return start_spread((known.low, known.mid, known.high), checks, work.outside_command_h, fetched)


def boot_hours(place: Place, work: Work) -> float:
    """Hours from launch to the first step, measured by the user's own runs or assumed, plus the plan's own steps."""
    fetch = work.fetch_hours(place)
    return (
        (BOOT_H if work.boot is None else work.boot.mid)
        + (0.0 if fetch is None else fetch.mid)
        + work.outside_command_h
    )


def least_hours(work: Work) -> tuple[float, float]:
    """Hours of a job and of its start-up, the least of any place: without interruptions, checks and fetching."""
    start_h = BOOT_H if work.boot is None else work.boot.mid
    return work.hours.mid / (1 + work.failure_overhead), start_h + work.outside_command_h


def billed_at(place: Place, request: PlanRequest, busy_h: float, charged: Charge) -> float:
    """Hours that an instance is billed for if it is busy for so long: with its idle tail, and the run's commitment.

    A commitment is bought for the median; a longer run needs more sets of nodes.
    """
    used = max(MIN_HOURS, busy_h + tail_hours(place, request, busy_h, learned=charged.tail))
    if not is_new_commitment(place, request):
        return used
    least = committed_hours(place, request, charged.used_h)
    return max(used, least, committed_hours(place, request, used)) if least else used


def _start_and_tail_lines(place: Place, work: Work, request: PlanRequest, middle: Charge) -> tuple[Assumption, ...]:
    """Start-up and idle tail as lines of the quote, and the share of a new commitment."""
    lines = [
        _start_line(place, work, middle),
        *fetching_lines(place, work),
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


def _start_line(place: Place, work: Work, middle: Charge) -> Assumption:
    """Start-up of the nodes as a line of the quote."""
    return Assumption(
        name="start-up of the nodes, billed before the first step",
        value=f"{(middle.start_h - work.outside_command_h) * 60:.3g}",
        unit="minutes",
        source=_start_source(place, work, middle),
        steps=() if work.boot is None else work.boot.steps,
    )


def _offering(place: Place, work: Work, request: PlanRequest, *, middle: Charge) -> ComputeCost:
    """A Capacity Block or a training plan: the shortest offering that fits the job, unused time included.

    A purchased offering keeps its own length, or the fee that was paid, however long the job is. The fee is paid
    before the job's length is known. AWS refunds nothing, and an overrun is paid in addition to the fee.
    """
    purchased = bought_capacity(request.purchase, place.option)
    idle = middle.billed_hours - middle.hours
    spare = middle.instances - place.nodes
    note = f"billed {middle.billed_hours:g} h at least; {max(0.0, idle):.0f} h unused"
    if purchased is not None:
        note = f"paid for {middle.billed_hours:g} h; {max(0.0, idle):.0f} h unused"
    if spare:
        note += f", and {spare} of {middle.instances} instances idle"
    lines = (_whole_line(place),) if purchased is not None else (_whole_line(place), _wait_line(place))
    return ComputeCost(
        charge=middle,
        hours=_percentiles(middle.wall),
        explained=lambda: (_start_line(place, work, middle), *fetching_lines(place, work), *lines),
        note=note,
    )


def _start_source(place: Place, work: Work, middle: Charge) -> str:
    if work.boot is not None:
        span = f"{work.boot.low * 60:.3g} to {work.boot.high * 60:.3g} minutes"
        return f"{work.boot.source}; {span}, from the submission to the first attempt"
    trial_h = middle.start_h - boot_hours(place, work)
    first, last = CHECK_MINUTES
    checked = f"; deep health checks in it, by AWS's guide {first} to {last} minutes" if trial_h > SAME else ""
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


def duration_text(seconds: float) -> str:
    """Seconds as a short readable duration.

    >>> duration_text(2.5), duration_text(840), duration_text(9000)
    ('2.5 s', '14 min', '2.5 h')
    """
    if seconds < 90:  # noqa: PLR2004 - a minute and a half
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"  # noqa: PLR2004 - an hour and a half
