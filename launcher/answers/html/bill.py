"""The section "quote against billed" of `slipway report --html --billed`."""

from collections.abc import Sequence
from decimal import Decimal
from functools import partial
from operator import itemgetter
from typing import Any

from launcher.answers import words
from launcher.answers.bill import answer, name_of
from launcher.answers.html.page import paragraphs, table
from launcher.answers.html.svg import BOTTOM, END, START, TOP, Plot, across, bar, scale_of, text_at
from launcher.answers.table import Column
from launcher.model.bill import BilledRun

ROW = 52.0
MOST = 12


def section(found: BilledRun) -> list[str | Plot]:
    """The answer, a plot of the largest lines, every line in a table, and what has to be known of it."""
    parts: list[str | Plot] = ["<h2>Quote against billed</h2>", paragraphs(answer(found), "lead")]
    if found.usd is not None:
        parts += [_plot(found), _lines(found)]
    parts.append(paragraphs(list(found.notes), "soft"))
    return parts


def _plot(found: BilledRun) -> Plot:
    """Two bars a line, quoted above and billed below, the largest lines first."""
    rows = [(each.line.names[0], each.line.usd or Decimal(0), each.usd) for each in found.lines]
    rows += [(f"not quoted: {name_of(each)}", Decimal(0), each.usd) for each in found.unquoted]
    rows = sorted((each for each in rows if each[1] or each[2]), key=lambda each: -max(each[1], each[2]))[:MOST]
    height = TOP + ROW * len(rows) + BOTTOM
    scale = scale_of([float(max(each[1:])) for each in rows], START, END - 10, zero=True)
    parts = [across(scale, TOP, height - BOTTOM, "dollars", "$")]
    for number, (name, quoted, billed) in enumerate(rows):
        y = TOP + ROW * number
        parts.append(text_at(START, y + 12, name, "tick"))
        parts.append(bar(y + 18, scale.at(float(quoted)), 11, "box", quoted))
        parts.append(bar(y + 31, scale.at(float(billed)), 11, "box g-network", billed))
    told = f"quoted ${words.dollars(found.quoted_usd)}, billed ${words.dollars(found.usd)}"
    return Plot(
        key="billed",
        title="Quoted and billed, by line",
        words=told,
        body="".join(parts),
        height=height,
        caption="Of two bars the upper is the quote, the lower the bill.",
    )


def _lines(found: BilledRun) -> str:
    titles = ("quoted", "billed", "unit", "quoted $", "billed $", "change $", "of quantity $", "of rate $")
    columns: list[Column[Sequence[Any]]] = [Column("line", itemgetter(0)), Column("usage type", itemgetter(1))]
    for index, title in enumerate(titles, start=2):
        number = Column(title, partial(_words, index), "right", value=partial(_value, index))
        columns.append(Column(title, itemgetter(index)) if title == "unit" else number)
    rows: list[Sequence[Any]] = [
        (
            ", ".join(each.line.names),
            (each.line.usage_type or "by service") + ("" if each.line.confirmed else " ?"),
            each.line.quantity,
            each.quantity,
            each.line.unit if each.line.quantity is not None else "",
            "unpriced" if each.line.usd is None else each.line.usd,
            each.usd,
            each.difference_usd,
            each.of_quantity_usd,
            each.of_rate_usd,
        )
        for each in found.lines
    ]
    for bare in found.unquoted:
        name = f"not quoted: {bare.service} {bare.what}".strip()
        rows.append((name, bare.usage_type, None, bare.quantity, bare.unit, None, bare.usd, bare.usd, None, None))
    return table("Every line; click a column title to sort", columns, rows, key="quoted-billed")


def _words(index: int, row: Sequence[Any]) -> str:
    """A number of a table, to the cent."""
    return row[index] if isinstance(row[index], str) else words.cents(row[index])


def _value(index: int, row: Sequence[Any]) -> Decimal | None:
    return row[index] if isinstance(row[index], Decimal) else None
