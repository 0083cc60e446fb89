"""Why a range of dollars is wide, and what narrows it most."""

from collections.abc import Mapping
from decimal import Decimal
from enum import StrEnum

from launcher.model.money import UsdRange
from launcher.model.record import record


class Cause(StrEnum):
    """A factor of the joint distribution of hours and dollars."""

    PRICE = "price"
    SPEED = "speed"
    INTERRUPTIONS = "interruptions"
    FAILURES = "failures"
    START_UP = "start-up"
    OVERRUN = "overrun"


@record
class Narrowing:
    """An answer in the plan file, or an action, with the dollars that it leads to if the middle stays.

    `path` is the key of an answer, "" for an action; `action` is what to do, in words.
    """

    path: str
    action: str
    usd: UsdRange


@record
class Stress:
    """The median of the total if interruptions came as in the worst published trace, so many per node-hour."""

    per_node_hour: float
    usd: Decimal


@record
class RangeCauses:
    """The share of each factor in the width of the dollars, the largest first, and what narrows it most.

    `stress` is a case outside of the range; None for purchase options that AWS does not interrupt.
    """

    shares: Mapping[Cause, float]
    narrows: Narrowing | None = None
    stress: Stress | None = None
