"""The page of `slipway report --html`: loss, throughput and dollars of a run over time, with what happened to it."""

from launcher.cli import words
from launcher.cli.html.bill import section
from launcher.cli.html.page import Cell, document, paragraphs, table
from launcher.cli.html.svg import Plot, lines_plot
from launcher.model.bill import BilledRun
from launcher.model.durations import HOUR_S, spoken
from launcher.model.report import Report
from launcher.workflow.run.timeline import RunTimeline

MINUTE_S = 60.0


def page(report: Report, timeline: RunTimeline, billed: BilledRun | None = None) -> str:
    """The whole file; `billed` is the bill, where it was asked for."""
    count = len(report.attempts)
    lead = f"{report.status.value} after {count} attempt{'s' if count != 1 else ''}"
    quoted = f"quoted ${words.dollars(report.quoted_usd)} for {spoken(report.quoted_hours * HOUR_S)}"
    used = report.usd_at_quoted_rate
    spent = (
        ""
        if used is None
        else f"; used {spoken(report.actual_hours * HOUR_S)}, ${words.dollars(used)} at the quoted rate"
    )
    parts: list[str | Plot] = [paragraphs([lead], "lead"), paragraphs([f"{quoted}{spent}"])]
    if report.simulated:
        parts.append(paragraphs(["The machines were stand-ins: their hours say nothing of the quoted ones."], "soft"))
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
    titles = [("attempt", True), ("began", False), ("took", False), ("ended by", False), ("exit", True)]
    titles += [("from step", True), ("to step", True)]
    rows = [
        [
            Cell(words=str(number), number=True),
            Cell(words=f"{each.started_at:%Y-%m-%d %H:%M:%S} UTC"),
            Cell(words=spoken(each.hours * HOUR_S) if each.ended_at else "running", value=f"{each.hours}"),
            Cell(words=(each.ended_by or "").replace("-", " ")),
            Cell(words="" if each.exit_code is None else str(each.exit_code), number=True),
            Cell(words=str(each.resumed_from_step), number=True),
            Cell(words="" if each.last_step is None else str(each.last_step), number=True),
        ]
        for number, each in enumerate(report.attempts, start=1)
    ]
    return "<h2>Attempts</h2>" + table("Every start of the job", titles, rows, key="attempts")


def _checked(report: Report) -> str:
    """What was read back."""
    rows = [[Cell(words=each)] for each in report.verified_resources]
    rows += [[Cell(words=f"not emulated: {each}")] for each in report.not_emulated]
    return "<h2>Read back</h2>" + table(
        f"{len(report.verified_resources)} facts as planned", [("fact", False)], rows, key="facts"
    )
