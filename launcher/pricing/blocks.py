"""Capacity Blocks: whole offerings only."""

import math

LONGEST_DAYS = 182
DAILY_UP_TO = 14
"""Blocks are sold in 1-day steps to 14 days and in 7-day steps to 182 (EC2 user guide, Capacity Blocks for ML)."""
BLOCK_LOST_H = 0.5
"""A block's instances are terminated from 30 minutes before its end, which is at 11:30 UTC (EC2 user guide)."""
PLAN_LOST_H = 1.0
"""HyperPod takes back the instances of a training plan from 60 minutes before its end."""


def block_days(hours: float, lost_h: float = BLOCK_LOST_H) -> int | None:
    """The shortest offering that leaves `hours` of running time, in days; None when there is none that long.

    >>> block_days(2.0), block_days(23.5), block_days(23.6), block_days(24 * 15), block_days(24 * 182)
    (1, 1, 2, 21, None)
    """
    days = max(1, math.ceil((hours + lost_h) / 24))
    if days > DAILY_UP_TO:
        days = math.ceil(days / 7) * 7
    return days if days <= LONGEST_DAYS else None
