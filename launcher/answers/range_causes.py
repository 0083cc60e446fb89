"""A range of dollars in words: why it is wide, what narrows it, and its mean where that is far from the middle."""

from decimal import Decimal

from launcher.answers import words
from launcher.model.money import UsdRange
from launcher.model.quote import Quote
from launcher.model.range_causes import Narrowing

FAR = Decimal("1.25")
"""A mean that exceeds the median by this factor is part of the text."""
LEAST_SHARE = 0.05
"""Causes with a smaller share are left out of the text."""


def why_wide(quoted: Quote) -> str:
    """The causes of the range and what narrows it most, in a sentence; "" for a certain total.

    As: "why so wide: price 48 %, speed 34 %; slipway prices refresh takes it to about $66 to $362".
    """
    causes = quoted.range_causes
    if causes is None:
        return ""
    shares = [f"{cause.value} {share * 100:.0f} %" for cause, share in causes.shares.items() if share >= LEAST_SHARE]
    narrowed = "" if causes.narrows is None else f"; {narrowed_to(causes.narrows)}"
    return f"why so wide: {', '.join(shares)}{narrowed}"


def narrowed_to(narrows: Narrowing) -> str:
    """An answer or action with the dollars that it leads to."""
    return f"{narrows.action} takes it to about ${words.dollars(narrows.usd.low)} to ${words.dollars(narrows.usd.high)}"


def on_average(usd: UsdRange | None) -> str:
    """The mean with the 90th percentile, where it is far above the median; else "".

    As: "on average $241: 1 run in 10 costs more than $429".
    """
    if usd is None or usd.mean is None or usd.mean <= FAR * usd.mid:
        return ""
    return f"on average ${words.dollars(usd.mean)}: 1 run in 10 costs more than ${words.dollars(usd.high)}"
