"""The section "quote against billed" of `slipway report --html --billed`."""

from decimal import Decimal
from html import escape

from launcher.cli import words
from launcher.cli.bill_page import answer, name_of
from launcher.cli.html.page import Cell, paragraphs, table
from launcher.cli.html.svg import BOTTOM, RIGHT, TOP, WIDTH, Plot, across, scale_of, text_at
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
    titles = [("line", False), ("usage type", False), ("quoted", True), ("billed", True), ("unit", False)]
    titles += [("quoted $", True), ("billed $", True), ("change $", True), ("of quantity $", True), ("of rate $", True)]
    rows = [
        [
            Cell(words=", ".join(each.line.names)),
            Cell(words=(each.line.usage_type or "by service") + ("" if each.line.confirmed else " ?")),
            _number(each.line.quantity),
            _number(each.quantity),
            Cell(words=each.line.unit if each.line.quantity is not None else ""),
            _number(each.line.usd, "unpriced"),
            _number(each.usd),
            _number(each.difference_usd),
            _number(each.of_quantity_usd),
            _number(each.of_rate_usd),
        ]
        for each in found.lines
    ]
    empty = Cell(words="")
    for bare in found.unquoted:
        name, usd = Cell(words=f"not quoted: {bare.service} {bare.what}".strip()), _number(bare.usd)
        unit = Cell(words=bare.unit)
        rows.append(
            [name, Cell(words=bare.usage_type), empty, _number(bare.quantity), unit, empty, usd, usd, empty, empty]
        )
    return table("Every line; press a title to sort by it", titles, rows, key="quoted-billed")


def _number(value: Decimal | None, without: str = "") -> Cell:
    """A number of a table, to the cent."""
    if value is None:
        return Cell(words=without, number=True)
    return Cell(words=f"{value:,.2f}", number=True, value=f"{value:f}")
