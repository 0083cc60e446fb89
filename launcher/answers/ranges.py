"""The range of a total in words: its two ends, its mean where that is far away, why it is wide, what narrows it."""

from collections.abc import Iterator
from decimal import Decimal

from launcher.answers import words
from launcher.model.money import UsdRange
from launcher.model.range_causes import RangeCauses

FAR = Decimal("1.25")
"""Ratio of the mean to the median from which the mean is stated."""
MIN_SHARE = 0.05
"""Share of a cause below which it is not named."""


SPIKE = "slipway spike FILE"
"""The action that narrows a range, before its plan is known (launcher/pricing/narrowing.py)."""


def ends(usd: UsdRange) -> str:
    """The two ends of a total with their meaning."""
    return f"1 run in 10 above ${words.dollars(usd.high)}, 1 in 10 below ${words.dollars(usd.low)}"


def average(usd: UsdRange) -> str:
    """The mean, where it is far above the median; "" elsewhere."""
    if usd.mean is None or usd.mean <= FAR * usd.mid:
        return ""
    return f"on average ${words.dollars(usd.mean)}"


def causes(why: RangeCauses | None, spike: str = SPIKE) -> Iterator[str]:
    """Why a range is wide, and the one answer or action that narrows it most; `spike` is the command of a spike."""
    if why is None:
        return
    shares = [f"{cause.value} {share:.0%}" for cause, share in why.shares.items() if share >= MIN_SHARE]
    if shares:
        yield f"by {', '.join(shares)}".replace("%", " %")
    if why.narrows is not None:
        usd = why.narrows.usd
        yield f"{why.narrows.action.replace(SPIKE, spike)}: ${words.dollars(usd.low)} to ${words.dollars(usd.high)}"
