"""The bill of a run next to its quote: rows of a bill, and the compared lines."""

from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import NamedTuple

from launcher.model.money import sum_usd
from launcher.model.record import record

DAY = timedelta(days=1)


class ChargeKind(StrEnum):
    """The kind of a bill row; only usage has a meaningful quantity."""

    USAGE = "usage"
    FEE = "fee"
    DISCOUNT = "discount"
    REFUND = "refund"
    CREDIT = "credit"
    TAX = "tax"


APART = (ChargeKind.CREDIT, ChargeKind.TAX)
"""Reported separately from the charges, because a quote has neither."""


class Upfront(StrEnum):
    """Whether an upfront fee counts on its payment date, or spread over the period that it covers."""

    PAID = "paid"
    SPREAD = "spread"


class BilledRow(NamedTuple):
    """One row of a bill."""

    # AWS's code of the service (AmazonEC2); empty if the bill has none.
    service: str
    # With its region's prefix; empty if the bill has none.
    usage_type: str
    kind: ChargeKind
    quantity: Decimal
    unit: str
    # The billed amount.
    usd: Decimal
    # The same with prepaid fees spread over their term.
    spread_usd: Decimal
    begin: datetime
    end: datetime
    what: str = ""
    # Whether the row is already on an invoice; None if the bill does not show this.
    closed: bool | None = None

    def dollars(self, upfront: Upfront) -> Decimal:
        """The dollars of the row."""
        return self.usd if upfront is Upfront.PAID else self.spread_usd


@record
class QuotedLine:
    """Lines of a quote that AWS bills as one usage type."""

    names: tuple[str, ...]
    services: tuple[str, ...]
    # Without region prefix; empty if the lines are identified by their services alone.
    usage_type: str
    unit: str
    # In AWS's unit; None if the lines have no usage type.
    quantity: Decimal | None
    # None if one of the lines has no price.
    usd: Decimal | None
    # Whether the usage type was read in a public source, not remembered.
    confirmed: bool = True
    # Whether the lines are prepaid.
    takes_fees: bool = False
    # Further usage types of the line.
    also: tuple[str, ...] = ()


@record
class ComparedLine:
    """A line of the quote with the amount that was billed for it.

    `of_quantity_usd` is the cost of the other quantity at the quoted rate, `of_rate_usd` that of the other rate at the
    billed quantity; together they are the difference. Both are None without two quantities.
    """

    line: QuotedLine
    quantity: Decimal | None
    usd: Decimal
    of_quantity_usd: Decimal | None
    of_rate_usd: Decimal | None

    @property
    def difference_usd(self) -> Decimal | None:
        """Billed less quoted; None if the line has no price."""
        return None if self.line.usd is None else self.usd - self.line.usd


@record(described=False)
class Unquoted:
    """A billed amount that is in no line of the quote; its quantity is 0 if its rows have several units."""

    service: str | None
    usage_type: str | None
    what: str
    quantity: float
    unit: str
    usd: Decimal


class Period(NamedTuple):
    """The period of a bill."""

    begin: datetime
    end: datetime

    def contains(self, row: BilledRow) -> bool:
        """Whether a row is in the period: of two consecutive periods exactly one contains a row.

        A row of an hour or a day is in the period that begins in it; a longer row is in every period that it overlaps.
        """
        span = row.end - row.begin
        if span > DAY:
            return row.begin < self.end and row.end > self.begin
        begin = floor(self.begin, span)
        return begin <= row.begin < max(floor(self.end, span), begin + span)


def floor(moment: datetime, span: timedelta) -> datetime:
    """The start of the hour, or of the day, that contains a moment.

    >>> floor(datetime(2026, 11, 22, 10, 20), timedelta(hours=1))
    datetime.datetime(2026, 11, 22, 10, 0)
    """
    if span <= timedelta(0):
        return moment
    day = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    return day + ((moment - day) // span) * span


@record
class BilledRun:
    """The bill of one run next to its quote."""

    name: str
    # The source of the rows.
    source: str
    # The tag of the rows: its key and its value.
    tag: tuple[str, str]
    period: Period
    as_of: datetime
    upfront: Upfront
    lines: tuple[ComparedLine, ...]
    unquoted: tuple[Unquoted, ...]
    # None if nothing has been billed yet; without credits and taxes.
    usd: Decimal | None
    credits_usd: Decimal
    tax_usd: Decimal
    # The end of the newest row.
    arrived_until: datetime | None
    # The rows that have not arrived, in words.
    missing: str | None
    # Whether every row is on an invoice; None if the bill does not show this.
    final: bool | None
    notes: tuple[str, ...] = ()

    @property
    def quoted_usd(self) -> Decimal:
        """The total of the priced lines of the quote."""
        return sum_usd(line.line.usd for line in self.lines)

    @property
    def unquoted_usd(self) -> Decimal:
        """The billed total that is in no line of the quote."""
        return sum((line.usd for line in self.unquoted), Decimal(0))
