"""The part of `slipway report --billed`: what AWS billed, line by line beside the quote."""

from decimal import Decimal
from operator import itemgetter

from launcher.answers import words
from launcher.answers.lines import wrapped
from launcher.answers.table import Column, render
from launcher.model.bill import BilledRun, ComparedLine, Unquoted, Upfront
from launcher.model.report import Report

SMALL = Decimal("0.005")
NARROW, NAME = 100, 28
"""Below so many columns a line's name is cut: what the difference is made of says more than the rest of a name."""


def head(report: Report) -> list[str]:
    """What run it is, in a line."""
    return ["", f"  {report.name}: {report.status.value}, {words.hours(report.actual_hours)} h of the job"]


def bill_lines(found: BilledRun, width: int) -> list[str]:
    """The answer, what has not arrived, the lines, what is in none of them, and what to know of it."""
    lines = ["", *(piece for text in answer(found) for piece in wrapped(f"  {text}", width)), ""]
    if found.usd is not None:
        lines += _table(found, width)
    lines += [piece for text in found.notes for piece in wrapped(f"  {text}", width)]
    return lines


def answer(found: BilledRun) -> list[str]:
    """The sum in a few sentences, what is not there yet first."""
    said = [] if found.missing is None else [f"{found.missing[:1].upper()}{found.missing[1:]}."]
    if found.usd is None:
        return [f"Nothing is billed yet under {found.tag[0]}={found.tag[1]} by {found.source}.", *said]
    change = found.usd - found.quoted_usd
    share = f", {change / found.quoted_usd:+.1%}" if found.quoted_usd else ""
    spread = ", fees spread over what they pay for" if found.upfront is Upfront.SPREAD else ""
    quoted = words.dollars(found.quoted_usd)
    first = f"Billed ${words.dollars(found.usd)}, quoted ${quoted}: {signed(change)}{share} ({found.source}{spread})."
    told = [first, *said]
    moved = _moved(found)
    if moved:
        told.append(moved)
    if found.credits_usd or found.tax_usd:
        told.append(f"Beside it credits of {signed(found.credits_usd)} and taxes of {signed(found.tax_usd)}.")
    if found.final is False:
        told.append("These rows are estimates of AWS's until the month's invoice.")
    return told


def _moved(found: BilledRun) -> str:
    quantity = sum((line.of_quantity_usd or Decimal(0) for line in found.lines), Decimal(0))
    rate = sum((line.of_rate_usd or Decimal(0) for line in found.lines), Decimal(0))
    unpriced = [line for line in found.lines if line.line.usd is None and line.usd]
    rest = found.usd - found.quoted_usd - quantity - rate - found.unquoted_usd if found.usd is not None else Decimal(0)
    parts = [f"{signed(quantity)} for other quantities", f"{signed(rate)} for other rates"]
    parts += [f"{signed(found.unquoted_usd)} in no line of the quote"] * bool(found.unquoted)
    if abs(rest) >= SMALL:
        why = "lines without a price" if unpriced else "lines that can only be compared in dollars"
        parts.append(f"{signed(rest)} in {why}")
    return f"Of that {', '.join(parts)}."


def signed(amount: Decimal) -> str:
    """A change in dollars.

    >>> signed(Decimal("12.5")), signed(Decimal("-1234.4")), signed(Decimal("0.001"))
    ('+$12.50', '-$1,234', '$0')
    """
    if abs(amount) < SMALL:
        return "$0"
    return f"{'+' if amount > 0 else '-'}${words.dollars(abs(amount))}"


def _table(found: BilledRun, width: int) -> list[str]:
    cut = NAME if width < NARROW else None
    columns: list[Column[tuple[str, ...]]] = [
        Column("line", lambda row: words.shortened(row[0], cut), shrinks=True),
        Column("quoted", itemgetter(1), "point", yields=2),
        Column("billed", itemgetter(2), "point", yields=3),
        Column("unit", itemgetter(3), yields=4),
        Column("quoted $", itemgetter(4), "point"),
        Column("billed $", itemgetter(5), "point"),
        Column("change $", itemgetter(6), "point"),
        Column("quantity $", itemgetter(7), "point", yields=0),
        Column("rate $", itemgetter(8), "point", yields=1),
    ]
    rows = [_row(line) for line in found.lines if line.usd or line.line.usd]
    rows += [_bare(each) for each in found.unquoted if abs(each.usd) >= SMALL]
    small = [each for each in found.unquoted if abs(each.usd) < SMALL]
    if small:
        usd = sum((each.usd for each in small), Decimal(0))
        name = f"not quoted: {len(small)} more under a cent"
        rows.append((name, "", "", "", "", words.cents(usd), _change(usd), "", ""))
    change = _change((found.usd or Decimal(0)) - found.quoted_usd)
    rows.append(("total", "", "", "", words.cents(found.quoted_usd), words.cents(found.usd), change, "", ""))
    return render(columns, rows, width)


def _row(each: ComparedLine) -> tuple[str, ...]:
    line = each.line
    return (
        f"{words.first_of(line.names)}{'' if line.confirmed else ' ?'}",
        _quantity(line.quantity),
        _quantity(each.quantity),
        line.unit if line.quantity is not None else "",
        words.cents(line.usd, "unpriced"),
        words.cents(each.usd),
        _change(each.difference_usd),
        _change(each.of_quantity_usd),
        _change(each.of_rate_usd),
    )


def name_of(each: Unquoted) -> str:
    """What is in no line of the quote, by what the bill says of it."""
    return " ".join(part for part in (each.service, each.usage_type, each.what) if part) or "a row without a name"


def _bare(each: Unquoted) -> tuple[str, ...]:
    name, quantity = f"not quoted: {name_of(each)}", _quantity(each.quantity or None)
    return name, "", quantity, each.unit if quantity else "", "", words.cents(each.usd), _change(each.usd), "", ""


def _quantity(value: Decimal | None) -> str:
    if value is None:
        return ""
    return f"{value:.2g}" if 0 < value < Decimal("0.1") else f"{value:,.2f}"


def _change(value: Decimal | None) -> str:
    return "" if value is None or abs(value) < SMALL else f"{value:+,.2f}"
