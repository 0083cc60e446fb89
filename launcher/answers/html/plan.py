"""The page of `slipway plan --html`: every candidate's range, dollars against time, and the table of candidates."""

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta

from launcher.answers import plan_screen, serving_screen, serving_table, words
from launcher.answers.headline import headline
from launcher.answers.html.page import SLIDER, cards, collapsible_section, document, paragraphs, table
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
from launcher.answers.price_ages import price_ages, price_dates
from launcher.answers.ranges import MIN_SHARE, average, causes, ends
from launcher.answers.table import Column, Row, dollars, hours
from launcher.model.budget_stop import stop_text
from launcher.model.enums import PurchaseOption
from launcher.model.money import UsdRange
from launcher.model.quote import Quote
from launcher.model.units import number_of
from launcher.pricing.priced import Priced

ROW, HEAD = 38.0, 30.0
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
    request = serving_table.headline(priced) if serves else headline(priced)
    dated = f"{request} · quoted {priced.now:%Y-%m-%d} · {price_dates(priced.candidates)}"
    parts: list[str | Plot] = [paragraphs([dated], "soft")]
    if serves:
        parts.append(cards(serving_decision(priced, quotes[0][1])))
        parts.append(paragraphs(serving_table.answer(priced, commands=False)))
    else:
        parts += [cards(decision(priced, quotes[0][1])), paragraphs(why(quotes[0][1]))]
    if known:
        groups = serving_screen.first_groups(priced) if serves else plan_screen.first_groups(priced)
        drawn = [(title, [(rank, priced.quote(rank)) for rank in ranks]) for title, ranks in groups]
        parts += [SLIDER, grouped_ranges(drawn, "a month" if serves else "a run")]
        if not serves:
            parts += causes_plot(quotes[0][1])
            wide = priced if every is None else every
            points = [(rank, wide.quote(rank)) for rank in range(1, len(wide.candidates) + 1)]
            parts.append(
                _times(
                    [point for point in points if point[1].usd is not None and point[1].commitment_usd is None],
                    whole=every is not None,
                )
            )
    parts.append(collapsible_section(f"All {number_of(len(quotes), 'candidate')}", table_of(quotes, serves=serves)))
    parts.append(paragraphs([price_ages(priced.candidates), "Nothing was called and nothing was spent."], "soft"))
    parts.append(paragraphs([finding_line(finding) for finding in priced.findings], "soft"))
    return document(f"{priced.request.name}: total cost to finish", parts)


def _refusal(priced: Priced, quoted: Quote) -> str:
    """Why a launch of a row is refused; "" if it is allowed."""
    if priced.blocking:
        return priced.blocking[0].message
    return "" if quoted.gate.allows_launch else quoted.gate.reason


def decision(priced: Priced, quoted: Quote) -> list[tuple[str, str, str]]:
    """The four cards: what to do, the total, the day it is done, the limit."""
    place, usd = quoted.plan.place, quoted.usd
    what = f"{words.place_instances(place)}, {words.option(place)}, {place.az_id or place.region}"
    refused = _refusal(priced, quoted)
    done = priced.now + timedelta(hours=quoted.hours.mid)
    slow = priced.now + timedelta(hours=quoted.hours.high)
    stop = priced.request.budget.stop_at_usd
    total = words.total(quoted, "unpriced")
    return [
        ("Decision", "launch" if not refused else "not yet", f"{what}{f': {refused}' if refused else ''}"),
        ("Total", total, quoted.no_price_reason or "" if usd is None else ends(usd)),
        ("Done by", f"{done:%Y-%m-%d %H:%M}", f"UTC, if it starts now; 1 run in 10 after {slow:%Y-%m-%d %H:%M}"),
        (
            "Limit",
            "none" if stop is None else f"${words.dollars(stop)}",
            "nothing stops the job at a sum" if stop is None else stop_text(quoted.plan, stop, quoted.usd_per_hour),
        ),
    ]


def serving_decision(priced: Priced, quoted: Quote) -> list[tuple[str, str, str]]:
    """The four cards of a month of serving: what to do, the total, a million tokens, the limit."""
    place, usd, outlook = quoted.plan.place, quoted.usd, quoted.serving
    hosted = place.option is PurchaseOption.BEDROCK
    what = f"{words.place_instances(place)}{'' if hosted else f', {words.option(place)}'}, {place.region}"
    refused = _refusal(priced, quoted)
    can = "use Bedrock" if hosted else "deploy"
    total = words.total(quoted, "unpriced")
    span = (
        (quoted.no_price_reason or "")
        if usd is None
        else ""
        if usd.low == usd.high
        else f"{words.usd_bounds(usd)} estimated"
    )
    million, used = serving_table.per_million(outlook), serving_table.utilisation_text(outlook)
    answers = outlook is not None and outlook.usd_per_million_output_tokens is not None
    tokens = "output tokens, with all of the bill" if answers else "tokens, in and out"
    stop = priced.request.budget.stop_at_usd
    return [
        ("Decision", "not yet" if refused else can, f"{what}{f': {refused}' if refused else ''}"),
        ("A month", total, span),
        (
            "A million tokens",
            "unknown" if million is None else f"${words.dollars(million)}",
            f"{tokens}{f'; {used} of the instances is used' if used else ''}",
        ),
        (
            "Limit",
            "none" if stop is None else f"${words.dollars(stop)}",
            f"nothing stops {'the calls' if hosted else 'the endpoint'} at a sum"
            if stop is None
            else stop_text(quoted.plan, stop, quoted.usd_per_hour),
        ),
    ]


def why(quoted: Quote) -> list[str]:
    """Why the total's range is wide, and what narrows it most."""
    text = "; ".join(causes(quoted.range_causes, "measured by a spike"))
    average_text = "" if quoted.usd is None else average(quoted.usd)
    sentence = "; ".join(part for part in (average_text, f"the width of the range is {text}" if text else "") if part)
    return [f"{sentence[0].upper()}{sentence[1:]}."] if sentence else []


def name_of(quoted: Quote) -> str:
    """A candidate in a few words."""
    place = quoted.plan.place
    return f"{words.place_instances(place)}, {serving_table.purchase_text(quoted, short=True)}, {place.region}"


def grouped_ranges(groups: Sequence[tuple[str, Ranked]], unit: str) -> Plot:
    """The ranges of candidates under headings."""
    known = [row for _, rows in groups for row in rows]
    starts = itertools.accumulate((len(rows) for _, rows in groups[:-1]), initial=0)
    return ranges(known, unit, heads=dict(zip(starts, (title for title, _ in groups), strict=True)))


def ranges(
    known: Ranked, unit: str, names: Mapping[int, str] | None = None, heads: Mapping[int, str] | None = None
) -> Plot:
    """The total's range of each candidate, with its middle as a dot that the scenario moves.

    `names` are the labels of the candidates; without them, the labels are rank and instances. `heads` are headings, by
    the index of the row below them.
    """
    heads = heads or {}
    height = TOP + ROW * len(known) + HEAD * len(heads) + BOTTOM
    bottom = height - BOTTOM
    spans = [quoted.usd for _, quoted in known if quoted.usd is not None]
    scale = scale_of([float(usd) for span in spans for usd in (span.low, span.high)], START, END)
    parts = [across(scale, TOP, bottom, f"dollars {unit}", "$")]
    texts, y = [], TOP + 24
    for number, ((rank, quoted), span) in enumerate(zip(known, spans, strict=True)):
        if number in heads:
            # A narrow screen has no room for the reason or the ages, which the caption repeats.
            parts.append(text_at(START, y - 8, re.split(r" \(|: ", heads[number])[0], "head"))
            y += HEAD
        low, mid, high = (scale.at(float(usd)) for usd in (span.low, span.mid, span.high))
        name = f"{quoted.short_id} {name_of(quoted)}" if names is None else names[rank]
        label, usd = name_of(quoted) if names is None else name, words.total(quoted)
        text = f"{label}: {usd} (${words.dollars(span.low)} to ${words.dollars(span.high)})"
        texts.append(text)
        data = f' data-rank="{rank}" data-low="{span.low}" data-mid="{span.mid}" data-high="{span.high}"'
        data += f' data-xlow="{low:.2f}" data-xmid="{mid:.2f}" data-xhigh="{high:.2f}"'
        kind, drawn = ("dot", "bar") if quoted.gate.allows_launch else ("refused", "bar off")
        parts += [text_at(START, y - 12, name, "tick name")]
        parts += [line(low, y, high, y, drawn), dot(mid, y, kind, data=data, label=text)]
        y += ROW
    return Plot(
        key="ranges",
        title=f"Total dollars {unit}, low to high",
        description="; ".join(texts),
        body="".join(parts),
        height=height,
        caption=" ".join(
            [
                "The dot is the median, the bar 80 % of the cases; grey is a candidate whose launch is refused now.",
                *(f"{head[0].upper()}{head[1:]}." for head in heads.values() if re.search(r" \(|: ", head)),
            ]
        ),
    )


def causes_plot(quoted: Quote) -> Iterator[Plot]:
    """The share of each cause of the range's width, as bars; nothing where there is only one."""
    shares = [] if quoted.range_causes is None else [*quoted.range_causes.shares.items()]
    shown = [(cause.value, share) for cause, share in shares if share >= MIN_SHARE]
    if len(shown) < 2:  # noqa: PLR2004 - of one cause the sentence above says all
        return
    scale = scale_of([100.0], START, END - 10, zero=True)
    parts = []
    for number, (name, share) in enumerate(shown):
        y, percent = TOP + ROW * number, f"{share:.0%}".replace("%", " %")
        end = scale.at(100 * share)
        parts.append(text_at(START, y + 12, name, "tick name"))
        parts.append(line(START, y + 24, end, y + 24, "bar"))
        parts.append(text_at(end, y + 28, percent, "tick", shift=10))
    text = "; ".join(f"{name} {share:.0%}".replace("%", " %") for name, share in shown)
    title = f"What makes the range of {quoted.short_id} wide"
    yield Plot(key="causes", title=title, description=text, body="".join(parts), height=TOP + ROW * len(shown) + 8)


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
        f"{letter} {name_of(quoted)}: {words.hours(x)} h{'' if quoted.gate.allows_launch else ', refused now'}"
        for letter, (x, *_, quoted) in zip(LETTERS, front, strict=False)
    )
    # Those on the line are drawn last, over what they beat.
    for x, y, rank, quoted in sorted(points, key=lambda point: point[2] in best):
        label = f"{name_of(quoted)}: {x:,.1f} h, ${y:,.2f}"
        data = f' data-rank="{rank}" data-h="{x:.4f}" data-usd="{y}"'
        kind = "front" if rank in best else "dot" if quoted.gate.allows_launch else "refused"
        parts.append(dot(wide.at(x), tall.at(y), kind, data=data, label=label))
    texts = "; ".join(f"{x:,.1f} h for ${y:,.2f} ({name_of(quoted)})" for x, y, _, quoted in reversed(front))
    scope = "every size and place" if whole else "the best of each type and purchase option"
    return Plot(
        key="times",
        title="Dollars against finishing time",
        description=f"No option is both cheaper and as fast, within 1 %, as: {texts}",
        body="".join(parts),
        height=height,
        caption=f"Shown: {scope}. On the dashed line nothing is both cheaper and as soon, to 1 %: {named}.",
        keys=[("dot", "can be launched"), ("refused", "refused now"), ("front", "on the line")],
    )


def table_of(quotes: Ranked, *, serves: bool, note_of: Callable[[Quote], str] | None = None) -> str:
    """Candidates as rows, each with its note."""
    columns: list[Column[tuple[int, Quote]]] = [
        Column("id", lambda row: row[1].short_id),
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
        return quoted.no_price_reason or ""
    refused = "" if quoted.gate.allows_launch else f"refused: {quoted.gate.reason}"
    incomplete = incomplete_note(quoted) if quoted.incomplete else ""
    return "; ".join(text for text in (quoted.note, incomplete, refused) if text)
