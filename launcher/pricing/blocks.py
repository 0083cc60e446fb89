"""Capacity Blocks and training plans: only complete offerings, or a purchased one."""

import math
from datetime import datetime
from decimal import Decimal
from typing import NamedTuple

from launcher.model.capacity import NOT_YET, OFFERED_PLAN
from launcher.model.enums import PurchaseOption
from launcher.model.request import PurchaseRequest, Reservation, TrainingPlanReference
from launcher.model.units import HOUR_S

LONGEST_DAYS = 182
DAILY_UP_TO = 14
"""Blocks are sold in 1-day steps to 14 days and in 7-day steps to 182 (EC2 user guide, Capacity Blocks for ML);
training plans from 1 to 182 days too, in steps taken as the same (SageMaker developer guide)."""
BLOCK_LOST_H = 0.5
"""A block's instances are terminated from 30 minutes before its end, which is at 11:30 UTC (EC2 user guide)."""
PLAN_LOST_H = 1.0
"""HyperPod takes back the instances of a training plan from 60 minutes before its end."""
HOURS_A_DAY = 24.0
LEAD_WEEKS = 8
"""A Capacity Block can be bought up to eight weeks before it begins (EC2 user guide)."""
MIN_CHANCE = 0.005
"""Overruns less likely than this are left out."""


def lost_h(option: PurchaseOption) -> float:
    """Hours at the end of an offering for which its instances are already terminated."""
    return PLAN_LOST_H if option is PurchaseOption.TRAINING_PLAN else BLOCK_LOST_H


def block_days(hours: float, lost: float = BLOCK_LOST_H) -> int | None:
    """The shortest offering that leaves `hours` of running time, in days; None when no offering is that long.

    >>> block_days(2.0), block_days(23.5), block_days(23.6), block_days(24 * 15), block_days(24 * 182)
    (1, 1, 2, 21, None)
    """
    if hours > LONGEST_DAYS * HOURS_A_DAY:
        return None
    days = max(1, math.ceil((hours + lost) / HOURS_A_DAY))
    if days > DAILY_UP_TO:
        days = math.ceil(days / 7) * 7
    return days if days <= LONGEST_DAYS else None


class PurchasedCapacity(NamedTuple):
    """Purchased capacity: its instances, and its hours if its window is known; `usable_h` is left for a job.

    `offered` marks capacity that AWS only offers and that is still to be bought.
    """

    instances: int
    window_h: float | None
    usable_h: float | None
    over: bool
    offered: bool = False


def purchased_capacity(
    purchase: PurchaseRequest, option: PurchaseOption, nodes: int, now: datetime
) -> PurchasedCapacity | None:
    """The reservation or training plan that a request names, as the plan file states it; None without one.

    Of a window that has begun, only the remaining time counts; a window without a start time begins now.
    """
    known = bought_capacity(purchase, option)
    if known is None:
        return None
    count = max(nodes, known.count or nodes)
    if known.ends_at is None:
        return PurchasedCapacity(count, None, None, over=False)
    begins = known.starts_at or now
    window_h = max(0.0, (known.ends_at - begins).total_seconds() / 3600)
    left_h = max(0.0, (known.ends_at - max(begins, now)).total_seconds() / 3600 - lost_h(option))
    name = known.id if isinstance(known, Reservation) else known.arn
    return PurchasedCapacity(
        count, window_h, left_h, over=left_h == 0.0, offered=name.endswith((NOT_YET, OFFERED_PLAN))
    )


def begins(purchase: PurchaseRequest, option: PurchaseOption, now: datetime) -> datetime | None:
    """The start of the purchased capacity; None if it has begun, or the plan file gives no start."""
    known = bought_capacity(purchase, option)
    starts_at = None if known is None else known.starts_at
    return starts_at if starts_at is not None and starts_at > now else None


def before_it_begins(starts_at: datetime, now: datetime, usd_per_hour: Decimal) -> str:
    """The cost of a cluster that is deployed before its instances are available, in words."""
    hours, rate = (starts_at - now).total_seconds() / HOUR_S, float(usd_per_hour)
    cost = f"${rate * HOURS_A_DAY:,.2f} a day until then, ${rate * hours:,.2f} in all"
    return f"begins {until(starts_at, now)}: a cluster deployed now costs {cost}, without a node"


def until(starts_at: datetime, now: datetime) -> str:
    """A future moment, with the time until then."""
    hours = (starts_at - now).total_seconds() / HOUR_S
    wait = f"{hours / HOURS_A_DAY:.1f} days" if hours >= HOURS_A_DAY else f"{hours:.1f} hours"
    return f"{starts_at:%Y-%m-%d %H:%M} UTC, in {wait}"


def bought_capacity(purchase: PurchaseRequest, option: PurchaseOption) -> Reservation | TrainingPlanReference | None:
    """The capacity already paid for under this option; an on-demand reservation has no fee and no window of its own."""
    if option is PurchaseOption.TRAINING_PLAN:
        return purchase.training_plan
    return purchase.reservation if option is PurchaseOption.CAPACITY_BLOCK else None
