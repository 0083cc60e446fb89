"""The section "quote against billed" of `slipway report --html --billed`."""

from collections.abc import Sequence
from decimal import Decimal
from functools import partial
from html import escape
from operator import itemgetter
from typing import Any

from launcher.answers import words
from launcher.answers.bill import answer, name_of
from launcher.answers.html.page import paragraphs, table
from launcher.answers.html.svg import BOTTOM, RIGHT, TOP, WIDTH, Plot, across, scale_of, text_at
from launcher.answers.table import Column
from launcher.model.bill import BilledRun

ROW = 34.0
NAMES = 270.0
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
    scale = scale_of([float(max(each[1:])) for each in rows], NAMES, WIDTH - RIGHT - 60, zero=True)
    parts = [across(scale, TOP, height - BOTTOM, "dollars", "$")]
    for number, (name, quoted, billed) in enumerate(rows):
        y = TOP + ROW * number + 4
        parts.append(text_at(NAMES - 10, y + 15, name[:40], "tick", "end"))
        for usd, kind, lower in ((quoted, "box", 0.0), (billed, "box g-network", 13.0)):
            end = scale.at(float(usd))
            size = f'x="{NAMES:g}" y="{y + lower:g}" width="{max(1.0, end - NAMES):.1f}" height="11"'
            label = f"<title>{escape(name)}: ${usd:,.2f}</title>"
            parts += [
                f'<rect {size} class="{kind}" data-usd="{usd:f}">{label}</rect>',
                text_at(end + 6, y + lower + 10, f"${words.dollars(usd)}", "tick"),
            ]
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
    return table("Every line; press a title to sort by it", columns, rows, key="quoted-billed")


def _words(index: int, row: Sequence[Any]) -> str:
    """A number of a table, to the cent."""
    return row[index] if isinstance(row[index], str) else words.cents(row[index])


def _value(index: int, row: Sequence[Any]) -> Decimal | None:
    return row[index] if isinstance(row[index], Decimal) else None
