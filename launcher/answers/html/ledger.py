"""The page of `slipway ledger --html`: runs' quotes next to their use and their bills, and the list of runs."""

from collections.abc import Sequence
from datetime import UTC
from decimal import Decimal
from html import escape

from launcher.answers.html.page import document, paragraphs, table
from launcher.answers.html.svg import (
    BOTTOM,
    END,
    START,
    TOP,
    Plot,
    across,
    dot,
    line,
    lines_plot,
    scale_of,
    text_at,
)
from launcher.answers.ledger import RUNS, answer, group_columns
from launcher.answers.table import Column
from launcher.model.ledger import Grouping, Ledger, LedgerEntry, group_totals, total
from launcher.model.units import number_of

ROW = 38.0
KEYS = (("dot", "quoted, middle"), ("front", "used, by the quote"), ("refused", "billed"))
MAX_ROWS = 24
MAX_RUNS = 2000
"""Maximum rows of the table; a browser needs seconds to render more."""
UNITS = (("days", 86_400.0), ("hours", 3_600.0), ("minutes", 60.0))
"""Units of an axis and their seconds: the largest unit that the runs fill once."""


def page(ledger: Ledger, by: Grouping | None) -> str:
    """The complete file."""
    parts: list[str | Plot] = [
        paragraphs(answer(total(ledger.entries)) if ledger.entries else ["No runs here."], "lead")
    ]
    real = [entry for entry in ledger.entries if not entry.simulated]
    drawn = [entry for entry in real or ledger.entries if _measures(entry)]
    if drawn:
        parts += [_quoted_and_billed(drawn[:MAX_ROWS], simulated=not real), *_over_time(drawn)]
    if by is not None and ledger.entries:
        groups = group_totals(ledger.entries, by)
        parts.append(table(f"Added up by {by.value}", group_columns(by)[:7], groups, key="groups"))
    if ledger.entries:
        parts.append(_runs(ledger.entries[:MAX_RUNS]))
    hidden = len(ledger.entries) - MAX_RUNS
    parts.append(
        paragraphs([f"not shown: {number_of(hidden, 'older run')}: --csv has them all."] * (hidden > 0), "soft")
    )
    parts.append(paragraphs([ledger.source, *(f"{run}: {reason}" for run, reason in ledger.unread)], "soft"))
    return document("Results of the runs", parts)


def _measures(entry: LedgerEntry) -> bool:
    """Whether a run has a measurement to compare with its quote; a monthly quote is not a quote of a run."""
    return entry.quoted_usd is not None and not entry.monthly and entry.usd_used is not None


def _quoted_and_billed(shown: Sequence[LedgerEntry], *, simulated: bool) -> Plot:
    height = TOP + ROW * len(shown) + BOTTOM
    scale = scale_of([usd for entry in shown for usd in _dollars(entry)], START, END)
    parts = [across(scale, TOP, height - BOTTOM, "dollars a run", "$")]
    texts = []
    for number, drawn_entry in enumerate(shown):
        y = TOP + ROW * number + 24
        low, mid, high, used, *billed = _dollars(drawn_entry)
        text = (
            f"{drawn_entry.name}, {drawn_entry.started_at:%Y-%m-%d}: quoted ${mid:,.2f} (${low:,.2f} to ${high:,.2f}), "
        )
        text += f"used ${used:,.2f}"
        text += f", billed ${billed[0]:,.2f}" if billed else ", no bill yet"
        texts.append(text)
        data = f' data-run="{escape(drawn_entry.name)}/{escape(drawn_entry.run)}"'
        parts.append(text_at(START, y - 12, f"{drawn_entry.name}, {drawn_entry.started_at:%Y-%m-%d %H:%M}", "tick"))
        parts.append(line(scale.at(low), y, scale.at(high), y, "bar"))
        parts.append(dot(scale.at(mid), y, "dot", data=f'{data} data-kind="quoted" data-usd="{mid}"', label=text))
        parts.append(dot(scale.at(used), y, "front", data=f'{data} data-kind="used" data-usd="{used}"', label=text))
        parts += [
            dot(scale.at(usd), y, "refused", data=f'{data} data-kind="billed" data-usd="{usd}"', label=text)
            for usd in billed
        ]
    spent = "Runs of the sandbox: nothing was spent. " if simulated else ""
    caption = (
        f"{spent}{number_of(len(shown), 'run')} with a price and an attempt, the newest; a bar is the quoted range."
    )
    return Plot(
        key="estimate",
        title="Quoted, used and billed",
        description="; ".join(texts),
        body="".join(parts),
        height=height,
        caption=caption,
        keys=KEYS,
    )


def _dollars(entry: LedgerEntry) -> list[float]:
    quoted = entry.quoted_usd
    if quoted is None:
        return []
    every = [quoted.low, quoted.mid, quoted.high, entry.usd_used or Decimal(0), entry.billed_usd]
    return [float(usd) for usd in every if usd is not None]


def _over_time(drawn: Sequence[LedgerEntry]) -> list[Plot]:
    ordered = sorted(drawn, key=lambda entry: entry.started_at)
    first, last_at = ordered[0].started_at, ordered[-1].started_at
    unit, seconds = next((step for step in UNITS if (last_at - first).total_seconds() >= step[1]), UNITS[-1])
    series: dict[str, list[tuple[float, float]]] = {"quoted, middle": [], "used": [], "billed": []}
    sums = dict.fromkeys(series, 0.0)
    for listed_entry in ordered:
        passed = (listed_entry.started_at - first).total_seconds() / seconds
        _, mid, _, used, *billed = _dollars(listed_entry)
        for name, usd in (("quoted, middle", mid), ("used", used), *(("billed", usd) for usd in billed)):
            sums[name] += usd
            series[name].append((passed, sums[name]))
    if len(ordered) < 2 or last_at == first:  # noqa: PLR2004 - a line has two ends
        return []
    last = (last_at - first).total_seconds() / seconds
    lines = [
        (name, kind, [*points, (last, points[-1][1])])
        for (name, points), kind in zip(series.items(), ("a", "b", "c"), strict=True)
        if points
    ]
    totals = ", ".join(f"{name} ${sums[name]:,.2f}" for name, _, _ in lines)
    title, axis = "Added up over time", f"{unit} since {first.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    caption = "Billed counts the runs whose bill was read."
    return [
        lines_plot(
            "sums",
            title,
            lines,
            x_title=axis,
            description=f"{number_of(len(ordered), 'run')}: {totals}",
            caption=caption,
        )
    ]


def _runs(entries: Sequence[LedgerEntry]) -> str:
    *shown, lost = RUNS
    stopped = Column[LedgerEntry](
        "stopped", lambda entry: f"{entry.interruptions or ''}", "right", value=lambda entry: entry.interruptions
    )
    return table("Every run; click a column title to sort", [*shown, stopped, lost], entries, key="runs")
