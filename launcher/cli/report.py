"""`slipway report`: the cost of a run, compared with its quote and with the AWS bill."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from launcher.cli import options, output, places
from launcher.model.bill import Upfront
from launcher.model.errors import UnreadableInputError
from launcher.records.command_record import KILLED, read_command
from launcher.records.run_folder import RunFolder, with_report

if TYPE_CHECKING:
    from launcher.model.bill import BilledRun
    from launcher.model.report import Report


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("report")(places.with_place(report))


def report(
    run: options.RunName,
    *,
    billed: Annotated[bool, typer.Option("--billed", help="Show what AWS billed for the run, line by line.")] = False,
    export: Annotated[
        str | None,
        typer.Option("--export", metavar="PLACE", help="A billing export: file, folder or s3://, CUR 2.0 or FOCUS."),
    ] = None,
    upfront: Annotated[
        Upfront, typer.Option("--upfront", help="Count upfront fees on the day of payment, or over the term.")
    ] = Upfront.PAID,
    json: options.Json = False,
    html: options.Html = None,
    show: options.Open = False,
) -> None:
    """Show the newest run of a plan: attempts, hours, dollars used, and what was checked.

    --billed reads the costs that carry the tag of the run's cluster, from Cost Explorer or an --export.
    """
    from launcher.records.report_document import report_document, stored_report
    from launcher.workflow.run.status import report_at, status_of

    if not billed and (export is not None or upfront is not Upfront.PAID):
        raise UnreadableInputError("--export and --upfront need --billed", hint="add --billed")
    name = places.plan_name(run)
    folder = with_report(name, Path.cwd())
    command = read_command(folder)
    if command is not None and not (folder.path / "report.json").is_file():
        raise UnreadableInputError(
            f"{name} has no report: its newest run is a {command.command}, {command.state}",
            hint=f"slipway status {name}",
        )
    current = report_at(name, folder, stored_report(folder), options.now())
    bill = _bill(name, folder, export, upfront) if billed else None
    target = options.page_path(html, name, "report", show=show)
    if target is not None:
        _save_page(target, folder, current, bill, show=show)
    if json:
        output.document(report_document(current, bill))
    elif target is None:
        # The page: only the bill if it was requested
        if bill is None:
            from launcher.answers.report import page

            output.page(page(current, output.terminal_width(), everything=output.verbose()))
        else:
            from launcher.answers.bill import bill_lines, head

            output.page([*head(current), *bill_lines(bill, output.terminal_width())])
    if status_of(folder, current) == KILLED:
        output.say("", f"  Its launch was killed; these are the last known values. next: slipway status {name}")


def _save_page(target: Path, folder: RunFolder, current: "Report", bill: "BilledRun | None", *, show: bool) -> None:
    from launcher.answers.html import report as report_html
    from launcher.records.node_look import kept_look
    from launcher.workflow.run.timeline import timeline

    recorded_events, look = timeline(folder, current.attempts), kept_look(folder)
    output.save_html(target, report_html.page(current, recorded_events, bill, look), show=show)


def _bill(name: str, folder: RunFolder, export: str | None, upfront: Upfront) -> "BilledRun":
    from launcher.workflow.history.bill import BillOptions, bill_of

    bill_options = BillOptions(root=Path.cwd(), environment=dict(os.environ), export=export, upfront=upfront)
    return bill_of(name, folder, bill_options, options.now())
