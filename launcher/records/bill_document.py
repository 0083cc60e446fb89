"""slipway.billed/1, the bill of a run: the key `billed` of its report, and the file that the ledger reads."""

from datetime import datetime
from decimal import Decimal
from typing import Literal

from launcher.model.bill import BilledRun, ComparedLine, Period, Unquoted, Upfront
from launcher.model.tags import Tag
from launcher.records.document import fill_record, json_object

BILLED = "billed.json"
"""The file in a run's folder with AWS's bill of the run, once the user has requested it."""


@json_object
class Amount:
    """A quantity in AWS's unit, and its dollars."""

    quantity: float | None
    usd: Decimal | None


@json_object
class BilledLine:
    """A line of the quote with the amount that was billed for it."""

    names: tuple[str, ...]
    services: tuple[str, ...]
    usage_type: str | None
    also_usage_types: tuple[str, ...]
    confirmed: bool
    unit: str
    quoted: Amount
    billed: Amount
    difference_usd: Decimal | None
    of_quantity_usd: Decimal | None
    of_rate_usd: Decimal | None

    @classmethod
    def of(cls, compared: ComparedLine) -> "BilledLine":
        """The line of a comparison."""
        line = compared.line
        return fill_record(
            cls,
            compared,
            names=line.names,
            services=line.services,
            usage_type=line.usage_type or None,
            also_usage_types=line.also,
            confirmed=line.confirmed,
            unit=line.unit,
            quoted=Amount(quantity=_number(line.quantity), usd=line.usd),
            billed=Amount(quantity=_number(compared.quantity), usd=compared.usd),
        )


@json_object
class BilledDocument:
    """A bill compared with its quote."""

    schema: Literal["slipway.billed/1"] = "slipway.billed/1"
    as_of: datetime
    source: str
    tag: Tag
    period: Period
    upfront: Upfront
    billed_usd: Decimal | None
    quoted_usd: Decimal
    unquoted_usd: Decimal
    credits_usd: Decimal
    tax_usd: Decimal
    arrived_until: datetime | None
    missing: str | None
    final: bool | None
    lines: tuple[BilledLine, ...]
    unquoted: tuple[Unquoted, ...]
    notes: tuple[str, ...]

    @classmethod
    def of(cls, billed: BilledRun) -> "BilledDocument":
        """The document of a bill."""
        return fill_record(
            cls,
            billed,
            tag=Tag(key=billed.tag[0], value=billed.tag[1]),
            billed_usd=billed.usd,
            lines=tuple(BilledLine.of(line) for line in billed.lines),
        )


def _number(value: Decimal | None) -> float | None:
    return None if value is None else float(value)
