"""Cash: the payments due for one job, and the amount left after credits."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from typing import NamedTuple

from launcher.model.enums import COMMITTED
from launcher.model.money import Assumption
from launcher.model.request import Credit
from launcher.pricing.bill_lines import compute_usd
from launcher.pricing.blocks import bought_capacity
from launcher.pricing.compute import ComputeCost
from launcher.pricing.context import PricingContext
from launcher.pricing.training_candidate import TrainingCandidate


class Cash(NamedTuple):
    """Dollars to pay for this job, the same after credits (None without credits), and the lines that explain both."""

    usd: Decimal | None
    after_credits_usd: Decimal | None
    assumptions: tuple[Assumption, ...]


def cash(candidate: TrainingCandidate, cost: ComputeCost | None) -> Cash:
    """The cash of a candidate.

    Owned capacity costs no further cash, regardless of the share charged to the job; a new commitment is paid in full.
    Credits pay in the order in which they expire, each up to its amount; expired ones pay nothing.
    """
    if cost is None or candidate.usd is None:
        return Cash(None, None, ())
    usd, compute, lines = candidate.usd, compute_usd(candidate.components), list[Assumption]()
    owned = candidate.context.request.purchase.owned and candidate.place.option in COMMITTED
    purchased = (
        bought_capacity(candidate.context.request.purchase, candidate.place.option) is not None and not candidate.to_buy
    )
    if owned or purchased:
        usd -= compute
        lines.append(_line("compute that is paid for already", f"{compute:.2f}", "no further cash"))
    elif cost.commitment_usd is not None:
        usd += cost.commitment_usd - compute
        lines.append(_line("cash for the whole commitment", f"{cost.commitment_usd:.2f}", "the job uses a part of it"))
    return apply_credits(usd, lines, candidate.context)


def apply_credits(usd: Decimal, lines: Iterable[Assumption], context: PricingContext) -> Cash:
    """The cash and its lines, including those of the plan's credits."""
    pools = context.request.purchase.credits
    if not pools:
        return Cash(usd, None, tuple(lines))
    due, used = after_credits(usd, pools, context.now)
    return Cash(usd, due, (*lines, *used))


def after_credits(usd: Decimal, pools: Sequence[Credit], now: datetime) -> tuple[Decimal, tuple[Assumption, ...]]:
    """The amount due after credits, and a line for each credit: the first to expire pays first."""
    due, lines = usd, []
    expired = [credit for credit in pools if credit.expires is not None and credit.expires <= now]
    good = [credit for credit in pools if credit not in expired]
    for pool in sorted(good, key=lambda credit: (credit.expires is None, credit.expires or now)):
        used = min(due, pool.usd)
        due -= used
        until = f", expires {pool.expires:%Y-%m-%d}" if pool.expires else ""
        lines.append(_line(f"credit {pool.pool}", f"{used:.2f}", f"of ${pool.usd:f}{until}"))
    lines += [
        _line(f"credit {credit.pool}", "0", f"expired {credit.expires:%Y-%m-%d}")
        for credit in expired
        if credit.expires
    ]
    return due, tuple(lines)


def _line(name: str, value: str, source: str) -> Assumption:
    return Assumption(name=name, value=value, unit="dollars", source=source)
