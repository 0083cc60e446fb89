"""The page of `slipway plan --html`: every candidate's range, dollars against time, and the table of candidates."""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta

from launcher.answers import plan_table, serving_table, words
from launcher.answers.html.page import SLIDER, cards, document, folded, paragraphs, table
from launcher.answers.html.svg import (
    BOTTOM,
    END,
    LEFT_MARGIN,
    START,
    TOP,
    Plot,
    across,
    dot,
    line,
    paths,
    scale_of,
    text_at,
    upright,
)
from launcher.answers.lines import finding_line
from launcher.answers.plan_rows import incomplete_note
from launcher.answers.plan_screen import selected
from launcher.answers.price_ages import price_ages, price_dates
from launcher.answers.ranges import average, causes, ends
from launcher.answers.table import Column, Row, dollars, hours
from launcher.model.money import UsdRange
from launcher.model.plan import SHORT_ID
from launcher.model.quote import Quote
from launcher.pricing.priced import Priced

ROW = 38.0
MAX_ROWS = 16
SOONER = 0.99
"""Share of hours below which a dearer candidate counts as sooner: estimates are not accurate to one per cent."""
TOTAL = "total $"
LETTERS = "ABCDEF"
"""Marks of the candidates of the frontier, which the caption names."""
Ranked = Sequence[tuple[int, Quote]]


def page(priced: Priced, every: Priced | None) -> str:
    """The complete file; `every` are the same candidates at every size and place, if they are few enough."""
    quotes = [(rank, priced.quote(rank)) for rank in range(1, len(priced.candidates) + 1)]
    known = [(rank, quoted) for rank, quoted in quotes if quoted.usd is not None]
    serves = priced.request.workload.serve is not None
    headline = serving_table.headline(priced) if serves else plan_table.headline(priced)
    dated = f"{headline} · quoted {priced.now:%Y-%m-%d} · {price_dates(priced.candidates)}"
    parts: list[str | Plot] = [paragraphs([dated], "soft")]
    if serves:
        parts.append(paragraphs(serving_table.answer(priced), "lead"))
    else:
        parts += [cards(decision(priced, quotes[0][1])), paragraphs(why(quotes[0][1]))]
    if known:
        drawn = known[:MAX_ROWS] if serves else _chart_rows(priced)
        parts += [SLIDER, ranges(drawn, "a month" if serves else "a run")]
        if not serves:
            wide = priced if every is None else every
            points = [(rank, wide.quote(rank)) for rank in range(1, len(wide.candidates) + 1)]
            parts.append(
                _times(
                    [point for point in points if point[1].usd is not None and point[1].commitment_usd is None],
                    whole=every is not None,
                )
            )
    parts.append(folded(f"All {len(quotes):,} candidates", table_of(quotes, serves=serves)))
    parts.append(paragraphs([price_ages(priced.candidates), "Nothing was called and nothing was spent."], "soft"))
    parts.append(paragraphs([finding_line(finding) for finding in priced.findings], "soft"))
    return document(f"{priced.request.name}: total cost to finish", parts)


def decision(priced: Priced, quoted: Quote) -> list[tuple[str, str, str]]:
    """The four cards: what to do, the total, the day it is done, the limit."""
    place, usd = quoted.plan.place, quoted.usd
    what = f"{words.place_instances(place)}, {words.option(place)}, {place.az_id or place.region}"
    blocked = priced.blocking[0].message if priced.blocking else ""
    refused = blocked or ("" if quoted.gate.allowed else quoted.gate.reason)
    done = priced.now + timedelta(hours=quoted.hours.mid)
    slow = priced.now + timedelta(hours=quoted.hours.high)
    stop = priced.request.budget.stop_at_usd
    total = "unpriced" if usd is None else f"{'~' if quoted.derived_lines else ''}${words.dollars(usd.mid)}"
    return [
        ("Decision", "launch" if not refused else "not yet", f"{what}{f': {refused}' if refused else ''}"),
        ("Total", total, quoted.unpriced or "" if usd is None else ends(usd)),
        ("Done by", f"{done:%Y-%m-%d %H:%M}", f"UTC, if it starts now; 1 run in 10 after {slow:%Y-%m-%d %H:%M}"),
        (
            "Limit",
            "none" if stop is None else f"${words.dollars(stop)}",
            "nothing stops the job at a sum" if stop is None else "the guard saves and ends the nodes at that sum",
        ),
    ]


def why(quoted: Quote) -> list[str]:
    """Why the total's range is wide, and what narrows it most."""
    text = "; ".join(causes(quoted, "measured by a spike"))
    average_text = "" if quoted.usd is None else average(quoted.usd)
    sentence = "; ".join(part for part in (average_text, f"the width of the range is {text}" if text else "") if part)
    return [f"{sentence[0].upper()}{sentence[1:]}."] if sentence else []


def _chart_rows(priced: Priced) -> Ranked:
    """The rows of the chart: what can be launched first, then what is cheaper but refused."""
    allowed, refused = selected(priced)
    ranks = [*sorted(allowed), *sorted(refused)[: MAX_ROWS - len(allowed)]]
    return [(rank, priced.quote(rank)) for rank in ranks]


def name_of(quoted: Quote) -> str:
    """A candidate in a few words."""
    place = quoted.plan.place
    where = "" if not place.instance_type else f", {words.option(place, short=True)}"
    return f"{words.place_instances(place)}{where}, {place.region}"


def ranges(known: Ranked, unit: str, names: Mapping[int, str] | None = None) -> Plot:
    """The total's range of each candidate, with its middle as a dot that the scenario moves.

    `names` are the labels of the candidates; without them, the labels are rank and instances.
    """
    height = TOP + ROW * len(known) + BOTTOM
    bottom = height - BOTTOM
    spans = [quoted.usd for _, quoted in known if quoted.usd is not None]
    scale = scale_of([float(usd) for span in spans for usd in (span.low, span.high)], START, END)
    parts = [across(scale, TOP, bottom, f"dollars {unit}", "$")]
    texts = []
    for number, ((rank, quoted), span) in enumerate(zip(known, spans, strict=True)):
        y = TOP + ROW * number + 24
        low, mid, high = (scale.at(float(usd)) for usd in (span.low, span.mid, span.high))
        name = f"{quoted.digest[:SHORT_ID]} {name_of(quoted)}" if names is None else names[rank]
        label, usd = name_of(quoted) if names is None else name, words.dollars(span.mid)
        text = f"{label}: ${usd} (${words.dollars(span.low)} to ${words.dollars(span.high)})"
        texts.append(text)
        data = f' data-rank="{rank}" data-low="{span.low}" data-mid="{span.mid}" data-high="{span.high}"'
        data += f' data-xlow="{low:.2f}" data-xmid="{mid:.2f}" data-xhigh="{high:.2f}"'
        kind, drawn = ("dot", "bar") if quoted.gate.allowed else ("refused", "bar off")
        parts += [text_at(START, y - 12, name, "tick")]
        parts += [line(low, y, high, y, drawn), dot(mid, y, kind, data=data, label=text)]
    return Plot(
        key="ranges",
        title=f"Total dollars {unit}, low to high",
        description="; ".join(texts),
        body="".join(parts),
        height=height,
        caption="The dot is the median, the bar 80 % of the cases; grey is a candidate whose launch is refused now.",
    )


def _times(known: Ranked, *, whole: bool) -> Plot:
    height = 360.0
    bottom = height - BOTTOM
    points = [
        (quoted.hours.mid, float(quoted.usd.mid), rank, quoted) for rank, quoted in known if quoted.usd is not None
    ]
    wide = scale_of([x for x, *_ in points], LEFT_MARGIN, END)
    tall = scale_of([y for _, y, *_ in points], bottom, TOP)
    front: list[tuple[float, float, int, Quote]] = []
    for option in sorted(points, key=lambda point: (point[1], point[0], point[2])):
        if not front or option[0] < front[-1][0] * SOONER:
            front.append(option)
    parts = [across(wide, TOP, bottom, "hours to finish"), upright(tall, "$")]
    parts.append(paths(height, [([(wide.at(x), tall.at(y)) for x, y, *_ in front], "line b")]))
    best = {rank for *_, rank, _ in front}
    # Below the line is no other dot; names would run into each other there, so the caption has them.
    for letter, (x, y, *_) in zip(LETTERS, front, strict=False):
        parts.append(text_at(wide.at(x), tall.at(y) + 18, letter, "tick"))
    named = "; ".join(
        f"{letter} {name_of(quoted)}: {words.hours(x)} h"
        for letter, (x, *_, quoted) in zip(LETTERS, front, strict=False)
    )
    # Those on the line are drawn last, over what they beat.
    for x, y, rank, quoted in sorted(points, key=lambda point: point[2] in best):
        label = f"{name_of(quoted)}: {x:,.1f} h, ${y:,.2f}"
        data = f' data-rank="{rank}" data-h="{x:.4f}" data-usd="{y}"'
        parts.append(dot(wide.at(x), tall.at(y), "front" if rank in best else "dot", data=data, label=label))
    texts = "; ".join(f"{x:,.1f} h for ${y:,.2f} ({name_of(quoted)})" for x, y, _, quoted in reversed(front))
    scope = "every size and place" if whole else "the best of each type and purchase option"
    return Plot(
        key="times",
        title="Dollars against finishing time",
        description=f"No option is both cheaper and as fast, within 1 %, as: {texts}",
        body="".join(parts),
        height=height,
        caption=f"Shown: {scope}. On the dashed line nothing is both cheaper and as soon, to 1 %: {named}.",
    )


def table_of(quotes: Ranked, *, serves: bool, note_of: Callable[[Quote], str] | None = None) -> str:
    """Candidates as rows, each with its note."""
    columns: list[Column[tuple[int, Quote]]] = [
        Column("id", lambda row: row[1].digest[:SHORT_ID]),
        Column("instances", lambda row: words.place_instances(row[1].plan.place)),
        Column("chip", lambda row: row[1].accelerator),
        Column("where", lambda row: row[1].plan.place.az_id or row[1].plan.place.region),
        Column("how", lambda row: words.option(row[1].plan.place)),
        Column(
            "$/h", lambda row: words.dollars(row[1].usd_per_hour, ""), "right", value=lambda row: row[1].usd_per_hour
        ),
    ]
    columns += [] if serves else [hours("hours", lambda row: row[1].hours.mid)]
    columns += totals(lambda row: row[1].usd)
    caption = "Candidates; click a column title to sort"
    spans = {TOTAL: lambda row: row[1].usd}
    return table(caption, columns, quotes, key="candidates", spans=spans, below=lambda row: (note_of or note)(row[1]))


def totals(usd: Callable[[Row], UsdRange | None]) -> list[Column[Row]]:
    """The middle, the low and the high of a row's total."""
    return [
        dollars(TOTAL, lambda row: None if (span := usd(row)) is None else span.mid, ""),
        dollars("low", lambda row: None if (span := usd(row)) is None else span.low, ""),
        dollars("high", lambda row: None if (span := usd(row)) is None else span.high, ""),
    ]


def note(quoted: Quote) -> str:
    """The important facts about a candidate: why it has no price, or why its launch would be refused."""
    if quoted.usd is None:
        return quoted.unpriced or ""
    refused = "" if quoted.gate.allowed else f"refused: {quoted.gate.reason}"
    incomplete = incomplete_note(quoted) if quoted.incomplete else ""
    return "; ".join(text for text in (quoted.note, incomplete, refused) if text)
