"""What exists in an account and what it costs."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class StackCost:
    """One stack of Slipway's: dollars an hour at this moment, and since it was last deployed.

    `kind` is the part it is: training, serving, network or checkpoints. Money is None where it is not known, and `note`
    says why, or what is left out. `owner` is who the plan's tags name. `ends_at` is when its guard stops its machines
    whatever they do, None where nothing does.
    """

    name: str
    kind: str
    region: str
    owner: str | None
    since: datetime
    usd_per_hour: Decimal | None
    usd_so_far: Decimal | None
    ends_at: datetime | None
    down_command: str
    note: str = ""


def hourly(stacks: Iterable[StackCost]) -> Decimal:
    """Dollars an hour of all that is known."""
    return sum((each.usd_per_hour for each in stacks if each.usd_per_hour is not None), Decimal(0))
