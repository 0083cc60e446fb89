"""Existing resources in an account, and their cost."""

from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal

from launcher.model.money import sum_usd
from launcher.model.record import record


@record
class StackCost:
    """One Slipway stack: its current dollars an hour, and its dollars since the last deployment.

    `kind` is the part it is: training, serving, network or checkpoints. Amounts are None if unknown, and `note` gives
    the reason, or the omissions. `owner` is the owner in the plan's tags. `ends_at` is the time when its guard stops
    its nodes regardless of their work, None without such a time.
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
    """Dollars an hour of all stacks with a known cost."""
    return sum_usd(stack.usd_per_hour for stack in stacks)


def small(usd: Decimal) -> str:
    """Dollars with extra digits for small amounts; an address alone costs half a cent an hour.

    >>> small(Decimal("38.32")), small(Decimal("0.005")), small(Decimal("0.00004"))
    ('38.32', '0.005', '0.00')
    """
    return f"{usd:.2f}" if usd >= Decimal("0.1") or usd < Decimal("0.001") else f"{usd:.2g}"
