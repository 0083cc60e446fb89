"""A quote's lines beside the rows of a bill: the difference of each, split into quantity and rate."""

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import NamedTuple

from launcher.catalog.billed import is_usage_type
from launcher.model.bill import APART, BilledRow, ChargeKind, ComparedLine, QuotedLine, Unquoted, Upfront

PLACES = Decimal("0.000001")
"""Products of quantities and rates are rounded to this; their sum is the difference to the digit."""


class Reconciled(NamedTuple):
    """The lines of the quote, what is in none of them, and what is told apart."""

    lines: tuple[ComparedLine, ...]
    unquoted: tuple[Unquoted, ...]
    credits_usd: Decimal
    tax_usd: Decimal

    @property
    def usd(self) -> Decimal:
        """Everything but credits and taxes."""
        return sum((each.usd for each in self.lines), sum((each.usd for each in self.unquoted), Decimal(0)))


def reconcile(lines: Sequence[QuotedLine], rows: Iterable[BilledRow], upfront: Upfront) -> Reconciled:
    """Compare a quote with a bill; every dollar of the rows is in exactly one place of the answer.

    A row belongs to the line of its service and usage type; else to the line that is known by its service alone; a fee
    to the line that is paid as a whole. Only usage has a quantity: a discount or a refund moves the rate.
    """
    taken: dict[int, list[BilledRow]] = {}
    known: dict[tuple[str, str, ChargeKind], int | None] = {}
    bare: dict[tuple[str, str, str], list[BilledRow]] = {}
    apart = dict.fromkeys(APART, Decimal(0))
    for row in rows:
        if row.kind in apart:
            apart[row.kind] += row.dollars(upfront)
            continue
        of = row.service, row.usage_type, row.kind
        if of not in known:
            known[of] = _line_of(row, lines)
        number = known[of]
        if number is None:
            what = "" if row.usage_type else row.what
            bare.setdefault((row.service, row.usage_type, what or _word(row.kind)), []).append(row)
        else:
            taken.setdefault(number, []).append(row)
    compared = tuple(_compared(line, taken.get(number, ()), upfront) for number, line in enumerate(lines))
    unquoted = [_unquoted(key, each, upfront) for key, each in bare.items()]
    ordered = sorted((each for each in unquoted if each.usd or each.quantity), key=lambda each: (-abs(each.usd), each))
    return Reconciled(compared, tuple(ordered), apart[ChargeKind.CREDIT], apart[ChargeKind.TAX])


def split(line: QuotedLine, quantity: Decimal | None, usd: Decimal) -> tuple[Decimal, Decimal] | None:
    """The difference between billed and quoted as quantity x quoted rate and rate x billed quantity.

    Δ$ = Δquantity x quoted rate + billed quantity x Δrate. None where a side has no quantity or no price.

    >>> line = QuotedLine(
    ...     names=("x",), services=("y",), usage_type="z", unit="hour", quantity=Decimal(10), usd=Decimal(20)
    ... )
    >>> split(line, Decimal(12), Decimal(30))
    (Decimal('4.000000'), Decimal('6.000000'))
    """
    if line.usd is None or not line.quantity or quantity is None:
        return None
    at_quoted_rate = (line.usd * quantity / line.quantity).quantize(PLACES)
    return at_quoted_rate - line.usd, usd - at_quoted_rate


def _line_of(row: BilledRow, lines: Sequence[QuotedLine]) -> int | None:
    """The number of the line that a row belongs to; None where there is none."""
    here = [number for number, line in enumerate(lines) if not row.service or row.service in line.services]
    if row.kind is ChargeKind.FEE:
        return next((number for number in here if lines[number].takes_fees), None)
    exact = [number for number in here if _is_of(lines[number], row.usage_type)]
    if exact:
        return exact[0] if len(exact) == 1 or row.service else None
    by_service = [number for number in here if row.service and _is_known_by_service(lines[number])]
    return by_service[0] if len(by_service) == 1 else None


def _is_of(line: QuotedLine, usage_type: str) -> bool:
    """Whether a usage type is that of a line."""
    known = (line.usage_type, *line.also) if line.usage_type else ()
    return any(is_usage_type(each, usage_type) for each in known)


def _is_known_by_service(line: QuotedLine) -> bool:
    """Whether what else a service bills is of a line."""
    return not line.usage_type and not line.takes_fees


def _compared(line: QuotedLine, rows: Sequence[BilledRow], upfront: Upfront) -> ComparedLine:
    usd = sum((row.dollars(upfront) for row in rows), Decimal(0))
    fees = any(row.kind is ChargeKind.FEE for row in rows)
    used = [row.quantity for row in rows if row.kind is ChargeKind.USAGE]
    comparable = bool(line.usage_type) and not fees
    quantity = sum(used, Decimal(0)) if comparable else None
    parts = split(line, quantity, usd)
    return ComparedLine(
        line=line,
        quantity=quantity,
        usd=usd,
        of_quantity_usd=None if parts is None else parts[0],
        of_rate_usd=None if parts is None else parts[1],
    )


def _unquoted(key: tuple[str, str, str], rows: Sequence[BilledRow], upfront: Upfront) -> Unquoted:
    service, usage_type, what = key
    units = {row.unit for row in rows if row.kind is ChargeKind.USAGE}
    same = len(units) == 1
    quantity = sum((row.quantity for row in rows if row.kind is ChargeKind.USAGE), Decimal(0)) if same else Decimal(0)
    usd = sum((row.dollars(upfront) for row in rows), Decimal(0))
    return Unquoted(service, usage_type, what, quantity, units.pop() if same else "", usd)


def _word(kind: ChargeKind) -> str:
    return "" if kind is ChargeKind.USAGE else kind.value
