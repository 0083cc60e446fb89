"""Money and quantities: dated prices, estimates with a range, lines of a bill."""

import re
from collections.abc import Iterable
from dataclasses import field
from datetime import date
from decimal import Decimal

from launcher.model.enums import Basis, Market
from launcher.model.record import INTERNAL, record

CENT = Decimal("0.01")
_LONG = re.compile(r"(?<![\w.,/:-])\d{4,}(?![\w/:-])")


def cents(usd: Decimal) -> str:
    """Money to the cent; amounts below a cent to two digits, so that a non-zero limit is never shown as zero.

    >>> cents(Decimal("1234.5")), cents(Decimal("0.0001")), cents(Decimal("0.00713138404")), cents(Decimal(0))
    ('1,234.50', '0.0001', '0.0071', '0.00')
    """
    return f"{round(usd, 1 - usd.adjusted()).normalize():f}" if 0 < abs(usd) < CENT else f"{usd:,.2f}"


def sum_usd(amounts: Iterable[Decimal | None]) -> Decimal:
    """The sum of the known dollars."""
    return sum((usd for usd in amounts if usd is not None), Decimal(0))


@record
class Price:
    """The cost of one unit in USD, with source and date; compute is priced per instance-hour."""

    usd: Decimal
    source: str
    basis: Basis
    as_of: date
    note: str = ""
    market: Market = Market.OPEN
    tiers: tuple["Tier", ...] = field(default=())
    """Quantity tiers, lowest first; empty when every unit costs `usd`."""


@record
class Tier:
    """A band of quantity with its own unit price: from `start` (included) to `end` (None: no end)."""

    start: Decimal
    end: Decimal | None
    usd: Decimal


@record
class Unpriced:
    """A missing price, and the reason. Never zero.

    `unverified` is an unverified row, shown with the reason; it prices nothing.
    """

    reason: str
    unverified: Price | None = None


@record
class Range:
    """The 10th, 50th and 90th percentile of one quantity; low <= mid <= high."""

    low: float
    mid: float
    high: float

    def __post_init__(self) -> None:
        """Reject a range that is out of order."""
        if not self.low <= self.mid <= self.high:
            message = f"range out of order: {self.low} {self.mid} {self.high}"
            raise ValueError(message)

    def scale(self, factor: float) -> "Range":
        """The range times a non-negative factor.

        >>> Range(low=1.0, mid=2.0, high=4.0).scale(2.0)
        Range(low=2.0, mid=4.0, high=8.0)
        """
        return Range(low=self.low * factor, mid=self.mid * factor, high=self.high * factor)


@record
class UsdRange:
    """Dollars: the 10th, 50th and 90th percentile of one distribution, and its mean where it is known."""

    low: Decimal
    mid: Decimal
    high: Decimal
    mean: Decimal | None = None


@record
class Assumption:
    """One input of an estimate, in words that a user can check: name, value, unit, source.

    `steps` is for computed numbers: the calculation, one line a step, for `--explain`.
    """

    name: str
    value: str
    unit: str
    source: str
    steps: tuple[str, ...] = field(default=(), metadata=INTERNAL)

    @property
    def amount(self) -> str:
        """The value and its unit, with thousands separators.

        >>> Assumption(name="rate", value="78423 (42871 to 1419)", unit="tokens/s", source="fit").amount
        '78,423 (42,871 to 1,419) tokens/s'
        """
        return _LONG.sub(lambda number: f"{int(number[0]):,}", f"{self.value} {self.unit}".strip())


@record
class CostComponent:
    """One line of a bill. `usd` is the middle estimate, or None with the reason in `unpriced`."""

    name: str
    group: str
    """compute, storage, network or other."""
    unit: str
    quantity: float
    unit_price_usd: Decimal | None
    usd: Decimal | None
    unpriced: str | None
    source: str
    basis: Basis | None
    as_of: date | None
