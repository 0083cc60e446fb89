"""The page of `slipway quote --html`: the lines of the bill, the cost of spot interruptions, every source."""

from collections.abc import Sequence
from decimal import Decimal
from itertools import groupby

from launcher.answers import words
from launcher.answers.html.page import cards, document, paragraphs, table
from launcher.answers.html.plan import causes_plot, decision, why
from launcher.answers.html.svg import BOTTOM, END, START, TOP, Plot, across, bar, lines_plot, scale_of, text_at
from launcher.answers.lines import finding_line
from launcher.answers.quote import GROUPS
from launcher.answers.quote_screen import facts, title
from launcher.answers.table import Column
from launcher.model.money import Assumption, CostComponent, Price
from launcher.model.quote import Policy, Quote
from launcher.model.units import number_of
from launcher.pricing.priced import Priced

ROW = 38.0
MAX_LINES = 14
CARDS = ("Total", "Limit")
"""Facts that the cards have already."""
MIN_SHARE = Decimal("0.002")
"""Share of the total below which a line is in the table alone."""
Curve = Sequence[tuple[float, float, float, float]]


def page(priced: Priced, rank: int, quoted: Quote, curve: Curve) -> str:
    """The complete file; `curve` holds interruptions per node-hour with the low, middle and high total at each."""
    heading = f"{title(quoted, priced.short_id(rank))} · quoted {priced.now:%Y-%m-%d} · {_price_date(quoted)}"
    parts: list[str | Plot] = [paragraphs([heading], "soft")]
    parts += [cards(decision(priced, quoted)), paragraphs(why(quoted))] if quoted.serving is None else []
    parts += [_facts(priced, quoted), _money(quoted), *causes_plot(quoted)]
    if curve:
        parts.append(_spot(quoted, curve))
    parts += [_bill(quoted), _assumptions(quoted), _policies(quoted)]
    parts.append(paragraphs([finding_line(finding) for finding in quoted.findings], "soft"))
    parts.append(paragraphs([f"digest {quoted.digest}"], "soft"))
    return document(f"{quoted.plan.name}: the quote", parts)


def _price_date(quoted: Quote) -> str:
    price = quoted.price
    return words.basis_and_day(price) if isinstance(price, Price) else "unpriced"


def _facts(priced: Priced, quoted: Quote) -> str:
    """The facts of the terminal's screen, without those of the cards."""
    rows = [fact for fact in facts(quoted, priced) if quoted.serving is not None or fact[0] not in CARDS]
    columns: list[Column[tuple[str, str, str]]] = [
        Column("fact", lambda fact: fact[0]),
        Column("value", lambda fact: fact[1]),
        Column("meaning", lambda fact: fact[2]),
    ]
    return table("While it runs, after a loss, at a launch", columns, rows, key="facts")


def _money(quoted: Quote) -> Plot:
    priced = [component for component in quoted.components if component.usd]
    least = MIN_SHARE * sum((component.usd or Decimal(0) for component in priced), Decimal(0))
    ordered_lines = sorted(priced, key=lambda component: -(component.usd or Decimal(0)))
    lines = [component for component in ordered_lines if (component.usd or Decimal(0)) >= least][:MAX_LINES]
    height = TOP + ROW * len(lines) + BOTTOM
    scale = scale_of([float(line.usd or 0) for line in lines], START, END - 10, zero=True)
    parts = [across(scale, TOP, height - BOTTOM, "dollars", "$")]
    for number, cost_line in enumerate(lines):
        y, usd = TOP + ROW * number, cost_line.usd or Decimal(0)
        parts.append(text_at(START, y + 12, cost_line.name, "tick"))
        parts.append(bar(y + 18, scale.at(float(usd)), 12, f"box g-{cost_line.group}", usd))
    ordered = sorted(priced, key=lambda component: GROUPS.index(component.group))
    sums = {
        group: sum((member.usd or Decimal(0) for member in members), Decimal(0))
        for group, members in groupby(ordered, key=lambda component: component.group)
    }
    totals = "; ".join(f"{group} ${words.dollars(usd)}" for group, usd in sums.items())
    rest = len(priced) - len(lines)
    caption = f"{totals}." + (f" The table has {number_of(rest, 'smaller line')} more." if rest > 0 else "")
    return Plot(
        key="money", title="Cost by line", description=totals, body="".join(parts), height=height, caption=caption
    )


def _spot(quoted: Quote, curve: Curve) -> Plot:
    nodes = quoted.plan.place.nodes
    marks = []
    if quoted.spot is not None:
        marks.append((quoted.spot.interruptions_per_hour / nodes, "", "assumed"))
        edge = quoted.spot.break_even_interruptions_per_hour
        if edge:
            marks.append((edge / nodes, "bad", "break-even"))
    points = [(rate, mid) for rate, _, mid, _ in curve]
    band = [(rate, low, high) for rate, low, _, high in curve]
    texts = "; ".join(f"{rate:.2g} an hour: ${mid:,.2f}" for rate, mid in points)
    return lines_plot(
        "spot",
        "Spot cost against interruptions",
        [("total, middle", "a", points)],
        x_title="interruptions of a node per hour",
        description=texts,
        marks=[mark for mark in marks if points[0][0] <= mark[0] <= points[-1][0]],
        bands=[("a", band)],
        x_zero=False,
        caption="The band is low to high. Above the break-even, the next purchase option is cheaper.",
    )


def _bill(quoted: Quote) -> str:
    columns: list[Column[CostComponent]] = [
        Column("line", lambda component: component.name),
        Column("group", lambda component: component.group),
        Column(
            "quantity",
            lambda component: f"{component.quantity:,.4g}",
            "right",
            value=lambda component: Decimal(repr(component.quantity)),
        ),
        Column("unit", lambda component: component.unit),
        Column(
            "$/unit",
            lambda component: "" if component.unit_price_usd is None else words.exact(component.unit_price_usd),
            "right",
        ),
        Column(
            "$",
            lambda component: words.cents(component.usd, "unpriced"),
            "right",
            value=lambda component: component.usd or None,
        ),
        Column("basis", lambda component: component.basis.value if component.basis else ""),
        Column("as of", lambda component: component.as_of.isoformat() if component.as_of else ""),
    ]
    caption = "Every line with its source; click a column title to sort"
    return "<h2>The bill</h2>" + table(
        caption, columns, quoted.components, key="bill", below=lambda component: component.unpriced or component.source
    )


def _assumptions(quoted: Quote) -> str:
    columns: list[Column[Assumption]] = [
        Column("assumption", lambda assumption: assumption.name),
        Column("value", lambda assumption: assumption.amount),
        Column("source", lambda assumption: assumption.source),
    ]
    return "<h2>Assumptions</h2>" + table("What the numbers rest on", columns, quoted.assumptions, key="assumptions")


def _policies(quoted: Quote) -> str:
    columns: list[Column[Policy]] = [
        Column("policy", lambda policy: policy.name),
        Column("", lambda policy: "on" if policy.on else "off"),
        Column("value", lambda policy: policy.value),
    ]
    return "<h2>Safety</h2>" + table("Policies", columns, quoted.policies, key="policies")
