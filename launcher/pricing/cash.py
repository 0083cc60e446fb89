"""Cash: what one job makes somebody pay now, and what is left of it after credits."""

from decimal import Decimal
from typing import NamedTuple

from launcher.model.money import Assumption
from launcher.model.request import Credit
from launcher.pricing.blocks import bought
from launcher.pricing.compute import ComputeCost
from launcher.pricing.desk import Desk
from launcher.pricing.drafts import Draft


class Cash(NamedTuple):
    """Dollars to pay for this job, the same after credits (None without credits), and the lines that say how."""

    usd: Decimal | None
    after_credits_usd: Decimal | None
    assumptions: tuple[Assumption, ...]


def cash(drawn: Draft, cost: ComputeCost | None) -> Cash:
    """The cash of a candidate.

    What is owned already costs no more cash, whatever the job is charged with; a new commitment is paid for as a whole.
    Credits pay in the order in which they expire, each as far as it reaches; expired ones pay nothing.
    """
    if cost is None or drawn.usd is None:
        return Cash(None, None, ())
    compute = sum(
        (each.usd for each in drawn.components if each.usd is not None and each.group == "compute"), Decimal(0)
    )
    usd, lines = drawn.usd, []
    owned = drawn.desk.request.purchase.owned and drawn.place.option.value in ("savings-plan", "reserved")
    if owned or bought(drawn.desk.request.purchase, drawn.place.option) is not None:
        usd -= compute
        lines.append(_line("compute that is paid for already", f"{compute:.2f}", "no further cash"))
    elif cost.commitment_usd is not None:
        usd += cost.commitment_usd - compute
        lines.append(_line("cash for the whole commitment", f"{cost.commitment_usd:.2f}", "the job uses a part of it"))
    if not drawn.desk.request.purchase.credits:
        return Cash(usd, None, tuple(lines))
    left = usd
    for pool in _usable(drawn.desk):
        used = min(left, pool.usd)
        left -= used
        until = f", expires {pool.expires:%Y-%m-%d}" if pool.expires else ""
        lines.append(_line(f"credit {pool.pool}", f"{used:.2f}", f"of ${pool.usd:f}{until}"))
    expired = [each for each in drawn.desk.request.purchase.credits if each not in _usable(drawn.desk)]
    lines += [_line(f"credit {each.pool}", "0", f"expired {each.expires:%Y-%m-%d}") for each in expired if each.expires]
    return Cash(usd, left, tuple(lines))


def _usable(desk: Desk) -> list[Credit]:
    """Credits that have not expired, the first to expire first."""
    good = [each for each in desk.request.purchase.credits if each.expires is None or each.expires > desk.now]
    return sorted(good, key=lambda each: (each.expires is None, each.expires or desk.now))


def _line(name: str, value: str, source: str) -> Assumption:
    """A line of the quote, in dollars."""
    return Assumption(name=name, value=value, unit="dollars", source=source)
