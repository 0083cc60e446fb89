"""The page of `slipway report --html`: loss, throughput and dollars of a run over time, with its events."""

from collections.abc import Sequence
from decimal import Decimal
from functools import partial
from operator import itemgetter
from typing import Any

from launcher.answers import words
from launcher.answers.bill import answer, name_of
from launcher.answers.html.nodes import nodes_plot
from launcher.answers.html.page import document, paragraphs, table
from launcher.answers.html.svg import BOTTOM, END, START, TOP, Plot, across, bar, lines_plot, scale_of, text_at
from launcher.answers.report import attempt_columns, left_up, slow_texts, stop_texts, used_lines
from launcher.answers.table import Column
from launcher.model.bill import BilledRun
from launcher.model.report import Attempt, Report
from launcher.model.units import HOUR_S, duration_text, number_of
from launcher.records.node_look import NodeLook
from launcher.workflow.run.timeline import RunTimeline

ROW = 52.0
MAX_ROWS = 12
MINUTE_S = 60.0


def section(billed: BilledRun) -> list[str | Plot]:
    """The answer, a plot of the largest lines, every line in a table, and notes."""
    parts: list[str | Plot] = ["<h2>Quote against billed</h2>", paragraphs(answer(billed), "lead")]
    if billed.usd is not None:
        parts += [_plot(billed), _lines(billed)]
    parts.append(paragraphs(list(billed.notes), "soft"))
    return parts


def _plot(billed_run: BilledRun) -> Plot:
    rows = [(line.line.names[0], line.line.usd or Decimal(0), line.usd) for line in billed_run.lines]
    rows += [(f"not quoted: {name_of(line)}", Decimal(0), line.usd) for line in billed_run.unquoted]
    rows = sorted((row for row in rows if row[1] or row[2]), key=lambda row: -max(row[1], row[2]))[:MAX_ROWS]
    height = TOP + ROW * len(rows) + BOTTOM
    scale = scale_of([float(max(row[1:])) for row in rows], START, END - 10, zero=True)
    parts = [across(scale, TOP, height - BOTTOM, "dollars", "$")]
    for number, (name, quoted, billed) in enumerate(rows):
        y = TOP + ROW * number
        parts.append(text_at(START, y + 12, name, "tick"))
        parts.append(bar(y + 18, scale.at(float(quoted)), 11, "box", quoted))
        parts.append(bar(y + 31, scale.at(float(billed)), 11, "box g-network", billed))
    totals = f"quoted ${words.dollars(billed_run.quoted_usd)}, billed ${words.dollars(billed_run.usd)}"
    return Plot(
        key="billed",
        title="Quoted and billed, by line",
        description=totals,
        body="".join(parts),
        height=height,
        caption="Of two bars the upper is the quote, the lower the bill.",
    )


def _lines(billed: BilledRun) -> str:
    titles = ("quoted", "billed", "unit", "quoted $", "billed $", "change $", "of quantity $", "of rate $")
    columns: list[Column[Sequence[Any]]] = [Column("line", itemgetter(0)), Column("usage type", itemgetter(1))]
    for index, title in enumerate(titles, start=2):
        number = Column(title, partial(_cell_text, index), "right", value=partial(_value, index))
        columns.append(Column(title, itemgetter(index)) if title == "unit" else number)
    rows: list[Sequence[Any]] = [
        (
            ", ".join(line.line.names),
            (line.line.usage_type or "by service") + ("" if line.line.confirmed else " ?"),
            line.line.quantity,
            line.quantity,
            line.line.unit if line.line.quantity is not None else "",
            "unpriced" if line.line.usd is None else line.line.usd,
            line.usd,
            line.difference_usd,
            line.of_quantity_usd,
            line.of_rate_usd,
        )
        for line in billed.lines
    ]
    for bare in billed.unquoted:
        name = f"not quoted: {bare.service} {bare.what}".strip()
        rows.append((name, bare.usage_type, None, bare.quantity, bare.unit, None, bare.usd, bare.usd, None, None))
    return table("Every line; click a column title to sort", columns, rows, key="quoted-billed")


def _cell_text(index: int, row: Sequence[Any]) -> str:
    return row[index] if isinstance(row[index], str) else words.cents(row[index])


def _value(index: int, row: Sequence[Any]) -> Decimal | None:
    return row[index] if isinstance(row[index], Decimal) else None


def page(report: Report, timeline: RunTimeline, billed: BilledRun | None = None, look: NodeLook | None = None) -> str:
    """The complete file; `billed` is the bill, if it was requested, `look` the last one of `slipway top`."""
    count = len(report.attempts)
    lead = f"{report.status.value} after {number_of(count, 'attempt')}"
    quoted = f"quoted ${words.dollars(report.quoted_usd)} for {duration_text(report.quoted_hours * HOUR_S)}"
    spent = "".join(f"; {line}" for line in used_lines(report))
    notes = (*stop_texts(report), *slow_texts(report))
    parts: list[str | Plot] = [paragraphs([lead], "lead"), *(paragraphs([text]) for text in notes)]
    parts.append(paragraphs([f"{quoted}{spent}"]))
    if report.simulated:
        text = "The nodes were emulated: their hours do not compare with the quote, and nothing was spent."
        parts.append(paragraphs([text], "soft"))
    parts += [paragraphs([sentence], "soft") for sentence in left_up(report)]
    if billed is not None:
        parts += section(billed)
    parts += _plots(report, timeline)
    if look is not None:
        parts.append(nodes_plot(look))
    parts += [_attempts(report), _verified_table(report)]
    return document(f"{report.name}: the run", parts)


def _plots(report: Report, timeline: RunTimeline) -> list[str | Plot]:
    marks = [(moment / MINUTE_S, "save", "") for moment in timeline.saved]
    marks += [(moment / MINUTE_S, "bad", "interrupted") for moment in timeline.broken]
    counts = (
        f"stored: {number_of(len(timeline.saved), 'checkpoint')}, {number_of(len(timeline.broken), 'interruption')}"
    )
    plots: list[str | Plot] = []
    for key, title, rows in (("loss", "Loss", timeline.losses), ("rate", "Tokens a second", timeline.rates)):
        if len(rows) > 1:
            points = [(second / MINUTE_S, value) for second, value in rows]
            first, last = rows[0][1], rows[-1][1]
            plots.append(
                lines_plot(
                    key,
                    title,
                    [(title.lower(), "a", points)],
                    x_title="minutes since the first attempt",
                    description=f"From {first:,.4g} to {last:,.4g}; {counts}",
                    unit="",
                    marks=marks,
                    zero=key == "rate",
                    caption="Faint upright lines are stored checkpoints, red ones interruptions." if marks else "",
                )
            )
    if report.usd_per_hour is not None and timeline.ends_at > 0:
        rate = float(report.usd_per_hour) / HOUR_S
        points = [(0.0, 0.0), (timeline.ends_at / MINUTE_S, timeline.ends_at * rate)]
        words_of = f"${points[-1][1]:,.2f} after {duration_text(timeline.ends_at)} at ${report.usd_per_hour:f} an hour"
        title = "Dollars at the quoted rate"
        series = [("dollars", "c", points)]
        plots.append(
            lines_plot(
                "usd", title, series, x_title="minutes since the first attempt", description=words_of, marks=marks
            )
        )
    return plots


def _attempts(report: Report) -> str:
    columns: list[Column[Attempt]] = [
        Column("attempt", lambda attempt: str(report.attempts.index(attempt) + 1), "right"),
        Column("began", lambda attempt: f"{attempt.started_at:%Y-%m-%d %H:%M:%S} UTC"),
        *attempt_columns(report.status.value),
    ]
    if any(attempt.place for attempt in report.attempts):
        columns.append(Column("on", lambda attempt: attempt.place))
    return "<h2>Attempts</h2>" + table("Every start of the job", columns, report.attempts, key="attempts")


def _verified_table(report: Report) -> str:
    rows = [*report.verified_resources, *(f"not emulated: {resource}" for resource in report.not_emulated)]
    caption = f"{number_of(len(report.verified_resources), 'fact')} as planned"
    return "<h2>Read back</h2>" + table(caption, [Column("fact", str)], rows, key="facts")
