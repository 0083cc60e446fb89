"""The page of `slipway report`."""

from collections.abc import Sequence

from launcher.cli import words
from launcher.cli.endpoint_page import endpoint_lines
from launcher.cli.lines import wrapped
from launcher.cli.table import Column, render
from launcher.model.durations import HOUR_S, spoken
from launcher.model.report import Attempt, Report


def page(report: Report, width: int, *, everything: bool = False) -> list[str]:
    """The report; with `everything` each fact that was read back."""
    if report.endpoint is not None:
        head = endpoint_lines(report, report.endpoint)
        return [
            *head,
            *(piece for line in _month(report) for piece in wrapped(line, width)),
            *_checked(report, width, everything=everything),
        ]
    where = f" on a {report.scheduler} scheduler" + (", simulated" if report.simulated else "")
    count = len(report.attempts)
    lines = ["", f"  {report.name}: {report.status.value} after {count} attempt{'s' if count != 1 else ''}{where}", ""]
    lines += attempt_rows(report.attempts, width)
    if report.stopped is not None:
        lines += ["", *wrapped(f"  {report.stopped.words}", width)]
    lines += ["", *(piece for line in _money(report) for piece in wrapped(line, width))]
    return lines + _checked(report, width, everything=everything)


def _checked(report: Report, width: int, *, everything: bool) -> list[str]:
    """The stacks, what was read back of them, and what could not be; folded unless everything is wanted."""
    facts, left = report.verified_resources, report.not_emulated
    lines = ["", "  stacks"]
    lines += [f"    {name}  {status}" for name, status in report.stacks] or ["    none"]
    if not everything:
        told = [f"{len(facts)} facts as planned"] if facts else []
        told += [f"{len(left)} not emulated, so not checked here"] if left else []
        return [*lines, "", *wrapped(f"  read back: {'; '.join(told)}; -v lists them", width)] if told else lines
    lines += ["", f"  read back and as planned ({len(facts)})"]
    lines += [piece for each in facts for piece in wrapped(f"    {each}", width)]
    if left:
        lines += ["", "  not emulated, so not checked here"]
        lines += [piece for each in left for piece in wrapped(f"    {each}", width)]
    return lines


def _month(report: Report) -> list[str]:
    """What a month of an endpoint was quoted at."""
    quoted = words.dollars(report.quoted_usd)
    lines = ["", f"  quoted ${quoted} a month, prices of {report.prices_as_of or 'no date'}"]
    if report.simulated and report.endpoint is not None and report.endpoint.reply is not None:
        text = "The answer is that of a stand-in: its tokens a second are no model's, and nothing was spent."
        lines.append(f"  {text}")
    elif report.simulated:
        lines.append("  The endpoint was a stand-in, and nothing was spent.")
    return lines


def attempt_rows(attempts: Sequence[Attempt], width: int) -> list[str]:
    """One row an attempt."""
    if not attempts:
        return ["  no attempt has begun"]
    columns = [
        Column(title="attempt", right=True),
        Column(title="began (UTC)"),
        Column(title="took", right=True),
        Column(title="ended by"),
        Column(title="exit", right=True),
        Column(title="from step", right=True),
        Column(title="to step", right=True),
    ]
    return render(columns, [_row(number, each) for number, each in enumerate(attempts, start=1)], width)


def _row(number: int, attempt: Attempt) -> list[str]:
    """One attempt."""
    return [
        str(number),
        f"{attempt.started_at:%H:%M:%S}",
        spoken(attempt.hours * HOUR_S) if attempt.ended_at else "running",
        (attempt.ended_by or "").replace("-", " "),
        "" if attempt.exit_code is None else str(attempt.exit_code),
        str(attempt.resumed_from_step),
        "" if attempt.last_step is None else str(attempt.last_step),
    ]


def _money(report: Report) -> list[str]:
    """Quoted beside used, at the quoted rate."""
    quoted = words.dollars(report.quoted_usd)
    lines = [
        f"  quoted ${quoted} for {spoken(report.quoted_hours * HOUR_S)}, prices of {report.prices_as_of or 'no date'}"
    ]
    used = report.usd_at_quoted_rate
    if used is not None and report.usd_per_hour is not None:
        rate = f"${words.exact(report.usd_per_hour)} an hour"
        lines.append(
            f"  used {spoken(report.actual_hours * HOUR_S)}, which is ${words.dollars(used)} at the quoted {rate}"
        )
    if report.simulated:
        lines.append(
            "  The machines were stand-ins: their hours say nothing of the quoted ones, and nothing was spent."
        )
    return lines
