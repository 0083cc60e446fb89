"""The bill of a run beside its quote: rows of a bill, and the lines that are compared."""

from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import NamedTuple

from launcher.model.money import sum_usd
from launcher.model.record import record


class ChargeKind(StrEnum):
    """What a row of a bill is; only usage has a quantity that counts."""

    USAGE = "usage"
    FEE = "fee"
    DISCOUNT = "discount"
    REFUND = "refund"
    CREDIT = "credit"
    TAX = "tax"


DAY = timedelta(days=1)
APART = (ChargeKind.CREDIT, ChargeKind.TAX)
"""What is told beside the charges: a quote has neither."""


class Upfront(StrEnum):
    """Whether a fee that was paid at once counts when it was paid, or spread over what it pays for."""

    PAID = "paid"
    SPREAD = "spread"


class BilledRow(NamedTuple):
    """One row of a bill.

    `service` is AWS's code of it (AmazonEC2), empty where the bill does not say; `usage_type` has its region's prefix,
    and is empty where the bill has none. `usd` is what was billed, `spread_usd` the same with fees spread. `closed`
    says whether the row is on an invoice already; None where the bill does not tell.
    """

    service: str
    usage_type: str
    kind: ChargeKind
    quantity: Decimal
    unit: str
    usd: Decimal
    spread_usd: Decimal
    begin: datetime
    end: datetime
    what: str = ""
    closed: bool | None = None

    def dollars(self, upfront: Upfront) -> Decimal:
        """What the row comes to."""
        return self.usd if upfront is Upfront.PAID else self.spread_usd


@record
class QuotedLine:
    """Lines of a quote that AWS bills as one usage type.

    `usage_type` has no region's prefix and is empty where the lines are known by their `services` alone. `quantity` is
    in AWS's unit, None where the lines have no usage type. `usd` is None where one of them has no price. `confirmed`
    says whether the usage type was read in a public source, not remembered. `takes_fees` is for what is paid whole;
    `also` are further usage types of the line.
    """

    names: tuple[str, ...]
    services: tuple[str, ...]
    usage_type: str
    unit: str
    quantity: Decimal | None
    usd: Decimal | None
    confirmed: bool = True
    takes_fees: bool = False
    also: tuple[str, ...] = ()


@record
class ComparedLine:
    """A line of the quote beside what was billed for it.

    `of_quantity_usd` is what the other quantity costs at the quoted rate, `of_rate_usd` what the other rate costs at
    the billed quantity; together they are the difference. Both are None where there are not two quantities.
    """

    line: QuotedLine
    quantity: Decimal | None
    usd: Decimal
    of_quantity_usd: Decimal | None
    of_rate_usd: Decimal | None

    @property
    def difference_usd(self) -> Decimal | None:
        """Billed less quoted; None where the line has no price."""
        return None if self.line.usd is None else self.usd - self.line.usd


class Unquoted(NamedTuple):
    """What was billed and is in no line of the quote."""

    service: str
    usage_type: str
    what: str
    quantity: Decimal
    unit: str
    usd: Decimal


class Period(NamedTuple):
    """What a bill was asked for."""

    begin: datetime
    end: datetime

    def holds(self, row: BilledRow) -> bool:
        """Whether a row is of the period: every row is of exactly one of two periods that follow each other.

        A row of an hour or a day is of the period that begins in it; one that is longer, of all that it touches.
        """
        span = row.end - row.begin
        if span > DAY:
            return row.begin < self.end and row.end > self.begin
        begin = floor(self.begin, span)
        return begin <= row.begin < max(floor(self.end, span), begin + span)


def floor(moment: datetime, span: timedelta) -> datetime:
    """The beginning of the hour, or of the day, in which a moment lies.

    >>> floor(datetime(2026, 11, 22, 10, 20), timedelta(hours=1))
    datetime.datetime(2026, 11, 22, 10, 0)
    """
    if span <= timedelta(0):
        return moment
    day = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    return day + ((moment - day) // span) * span


@record
class BilledRun:
    """The bill of one run beside its quote.

    `source` is where the rows come from, `tag` the one they carry. `usd` is None where nothing has been billed yet; it
    holds neither credits nor taxes. `arrived_until` is the end of the newest row, `missing` what has not arrived yet in
    words. `final` says whether every row is on an invoice; None where the bill does not tell.
    """

    name: str
    source: str
    tag: tuple[str, str]
    period: Period
    as_of: datetime
    upfront: Upfront
    lines: tuple[ComparedLine, ...]
    unquoted: tuple[Unquoted, ...]
    usd: Decimal | None
    credits_usd: Decimal
    tax_usd: Decimal
    arrived_until: datetime | None
    missing: str | None
    final: bool | None
    notes: tuple[str, ...] = ()

    @property
    def quoted_usd(self) -> Decimal:
        """The priced lines of the quote."""
        return sum_usd(line.line.usd for line in self.lines)

    @property
    def unquoted_usd(self) -> Decimal:
        """What is in no line of the quote."""
        return sum((line.usd for line in self.unquoted), Decimal(0))
