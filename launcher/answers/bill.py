"""The part of `slipway report --billed`: AWS's bill, line by line next to the quote."""

from decimal import Decimal
from operator import itemgetter

from launcher.answers import words
from launcher.answers.lines import fold
from launcher.answers.table import Column, render
from launcher.model.bill import BilledRun, ComparedLine, Unquoted, Upfront
from launcher.model.report import Report

SMALL = Decimal("0.005")
NARROW, NAME = 100, 28
"""Below this width a line's name is cut: the parts of the difference are more useful than the rest of a name."""


def head(report: Report) -> list[str]:
    """The run in one line."""
    return ["", f"  {report.name}: {report.status.value}, {words.hours(report.actual_hours)} h of the job"]


def bill_lines(billed: BilledRun, width: int) -> list[str]:
    """The answer, missing bill rows, the lines, amounts outside the lines, and notes."""
    lines = ["", *(piece for text in answer(billed) for piece in fold(f"  {text}", width)), ""]
    if billed.usd is not None:
        lines += _table(billed, width)
    lines += [piece for text in billed.notes for piece in fold(f"  {text}", width)]
    return lines


def answer(billed: BilledRun) -> list[str]:
    """The total in a few sentences, with the bill rows that have not arrived."""
    missing = [] if billed.missing is None else [f"{billed.missing[:1].upper()}{billed.missing[1:]}."]
    if billed.usd is None:
        return [f"Nothing is billed yet under {billed.tag[0]}={billed.tag[1]} by {billed.source}.", *missing]
    change = billed.usd - billed.quoted_usd
    share = f", {change / billed.quoted_usd:+.1%}" if billed.quoted_usd else ""
    spread = ", fees spread over what they pay for" if billed.upfront is Upfront.SPREAD else ""
    quoted = words.dollars(billed.quoted_usd)
    first = (
        f"Billed ${words.dollars(billed.usd)}, quoted ${quoted}: {signed_usd(change)}{share} ({billed.source}{spread})."
    )
    sentences = [first, *missing]
    moved = _movement_text(billed)
    if moved:
        sentences.append(moved)
    if billed.credits_usd or billed.tax_usd:
        sentences.append(
            f"Beside it credits of {signed_usd(billed.credits_usd)} and taxes of {signed_usd(billed.tax_usd)}."
        )
    if billed.final is False:
        sentences.append("These rows are estimates of AWS's until the month's invoice.")
    return sentences


def _movement_text(billed: BilledRun) -> str:
    quantity = sum((line.of_quantity_usd or Decimal(0) for line in billed.lines), Decimal(0))
    rate = sum((line.of_rate_usd or Decimal(0) for line in billed.lines), Decimal(0))
    unpriced = [line for line in billed.lines if line.line.usd is None and line.usd]
    rest = (
        billed.usd - billed.quoted_usd - quantity - rate - billed.unquoted_usd if billed.usd is not None else Decimal(0)
    )
    parts = [f"{signed_usd(quantity)} for other quantities", f"{signed_usd(rate)} for other rates"]
    parts += [f"{signed_usd(billed.unquoted_usd)} in no line of the quote"] * bool(billed.unquoted)
    if abs(rest) >= SMALL:
        why = "lines without a price" if unpriced else "lines that can only be compared in dollars"
        parts.append(f"{signed_usd(rest)} in {why}")
    return f"Of that {', '.join(parts)}."


def signed_usd(amount: Decimal) -> str:
    """A change in dollars.

    >>> signed_usd(Decimal("12.5")), signed_usd(Decimal("-1234.4")), signed_usd(Decimal("0.001"))
    ('+$12.50', '-$1,234', '$0')
    """
    if abs(amount) < SMALL:
        return "$0"
    return f"{'+' if amount > 0 else '-'}${words.dollars(abs(amount))}"


def _table(billed: BilledRun, width: int) -> list[str]:
    cut = NAME if width < NARROW else None
    columns: list[Column[tuple[str, ...]]] = [
        Column("line", lambda row: words.shorten(row[0], cut), shrinks=True),
        Column("quoted", itemgetter(1), "point", yields=2),
        Column("billed", itemgetter(2), "point", yields=3),
        Column("unit", itemgetter(3), yields=4),
        Column("quoted $", itemgetter(4), "point"),
        Column("billed $", itemgetter(5), "point"),
        Column("change $", itemgetter(6), "point"),
        Column("quantity $", itemgetter(7), "point", yields=0),
        Column("rate $", itemgetter(8), "point", yields=1),
    ]
    rows = [_row(line) for line in billed.lines if line.usd or line.line.usd]
    rows += [_bare(line) for line in billed.unquoted if abs(line.usd) >= SMALL]
    small = [line for line in billed.unquoted if abs(line.usd) < SMALL]
    if small:
        usd = sum((line.usd for line in small), Decimal(0))
        name = f"not quoted: {len(small)} more under a cent"
        rows.append((name, "", "", "", "", words.cents(usd), _change(usd), "", ""))
    change = _change((billed.usd or Decimal(0)) - billed.quoted_usd)
    rows.append(("total", "", "", "", words.cents(billed.quoted_usd), words.cents(billed.usd), change, "", ""))
    return render(columns, rows, width)


def _row(compared: ComparedLine) -> tuple[str, ...]:
    line = compared.line
    return (
        f"{words.first_of(line.names)}{'' if line.confirmed else ' ?'}",
        _quantity(line.quantity),
        _quantity(compared.quantity),
        line.unit if line.quantity is not None else "",
        words.cents(line.usd, "unpriced"),
        words.cents(compared.usd),
        _change(compared.difference_usd),
        _change(compared.of_quantity_usd),
        _change(compared.of_rate_usd),
    )


def name_of(unquoted: Unquoted) -> str:
    """The name of a billed amount outside the quote's lines, from the bill's own words."""
    return (
        " ".join(part for part in (unquoted.service, unquoted.usage_type, unquoted.what) if part)
        or "a row without a name"
    )


def _bare(unquoted: Unquoted) -> tuple[str, ...]:
    name, quantity = f"not quoted: {name_of(unquoted)}", _quantity(unquoted.quantity or None)
    return (
        name,
        "",
        quantity,
        unquoted.unit if quantity else "",
        "",
        words.cents(unquoted.usd),
        _change(unquoted.usd),
        "",
        "",
    )


def _quantity(value: Decimal | float | None) -> str:
    if value is None:
        return ""
    return f"{value:.2g}" if 0 < value < Decimal("0.1") else f"{value:,.2f}"


def _change(value: Decimal | None) -> str:
    return "" if value is None or abs(value) < SMALL else f"{value:+,.2f}"
