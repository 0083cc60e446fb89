"""Existing resources in an account, and their cost."""

from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal

from launcher.model.money import sum_usd
from launcher.model.record import record


@record
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
    return sum_usd(stack.usd_per_hour for stack in stacks)


def small(usd: Decimal) -> str:
    """Dollars that may be few; an address alone costs half a cent an hour.

    >>> small(Decimal("38.32")), small(Decimal("0.005")), small(Decimal("0.00004"))
    ('38.32', '0.005', '0.00')
    """
    return f"{usd:.2f}" if usd >= Decimal("0.1") or usd < Decimal("0.001") else f"{usd:.2g}"
