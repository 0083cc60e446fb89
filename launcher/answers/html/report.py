"""The page of `slipway report --html`: loss, throughput and dollars of a run over time, with what happened to it."""

from launcher.answers import words
from launcher.answers.html.bill import section
from launcher.answers.html.page import document, paragraphs, table
from launcher.answers.html.svg import Plot, lines_plot
from launcher.answers.report import ATTEMPTS, used_lines
from launcher.answers.table import Column
from launcher.model.bill import BilledRun
from launcher.model.durations import HOUR_S, spoken
from launcher.model.report import Attempt, Report
from launcher.workflow.run.timeline import RunTimeline

MINUTE_S = 60.0


def page(report: Report, timeline: RunTimeline, billed: BilledRun | None = None) -> str:
    """The whole file; `billed` is the bill, where it was asked for."""
    count = len(report.attempts)
    lead = f"{report.status.value} after {count} attempt{'s' if count != 1 else ''}"
    quoted = f"quoted ${words.dollars(report.quoted_usd)} for {spoken(report.quoted_hours * HOUR_S)}"
    spent = "".join(f"; {each}" for each in used_lines(report))
    parts: list[str | Plot] = [paragraphs([lead], "lead"), paragraphs([f"{quoted}{spent}"])]
    if report.simulated:
        parts.append(paragraphs(["The nodes were emulated: their hours do not compare with the quote."], "soft"))
    if billed is not None:
        parts += section(billed)
    parts += _plots(report, timeline)
    parts += [_attempts(report), _checked(report)]
    return document(f"{report.name}: the run", parts)


def _plots(report: Report, timeline: RunTimeline) -> list[str | Plot]:
    """What there are figures of."""
    marks = [(each / MINUTE_S, "save", "") for each in timeline.saved]
    marks += [(each / MINUTE_S, "bad", "interrupted") for each in timeline.broken]
    told = f"{len(timeline.saved)} checkpoints were stored, {len(timeline.broken)} interruptions"
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
                    words=f"From {first:,.4g} to {last:,.4g}; {told}",
                    unit="",
                    marks=marks,
                    zero=key == "rate",
                    caption="Faint upright lines are stored checkpoints, red ones interruptions." if marks else "",
                )
            )
    if report.usd_per_hour is not None and timeline.ends_at > 0:
        rate = float(report.usd_per_hour) / HOUR_S
        points = [(0.0, 0.0), (timeline.ends_at / MINUTE_S, timeline.ends_at * rate)]
        words_of = f"${points[-1][1]:,.2f} after {spoken(timeline.ends_at)} at ${report.usd_per_hour:f} an hour"
        title = "Dollars at the quoted rate"
        series = [("dollars", "c", points)]
        plots.append(
            lines_plot("usd", title, series, x_title="minutes since the first attempt", words=words_of, marks=marks)
        )
    return plots


def _attempts(report: Report) -> str:
    """One row an attempt."""
    columns: list[Column[Attempt]] = [
        Column("attempt", lambda each: str(report.attempts.index(each) + 1), "right"),
        Column("began", lambda each: f"{each.started_at:%Y-%m-%d %H:%M:%S} UTC"),
        *ATTEMPTS,
    ]
    return "<h2>Attempts</h2>" + table("Every start of the job", columns, report.attempts, key="attempts")


def _checked(report: Report) -> str:
    """What was read back."""
    rows = [*report.verified_resources, *(f"not emulated: {each}" for each in report.not_emulated)]
    caption = f"{len(report.verified_resources)} facts as planned"
    return "<h2>Read back</h2>" + table(caption, [Column("fact", str)], rows, key="facts")
