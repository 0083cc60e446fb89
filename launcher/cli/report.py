"""`slipway report`: what a run came to, beside what was quoted."""

from pathlib import Path

import typer

from launcher.cli import options, output
from launcher.cli.table import terminal_width
from launcher.model.errors import UnreadableInputError
from launcher.records.command_record import KILLED, read_command
from launcher.records.run_folder import latest


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("report")(report)


def report(
    run: options.RunName, *, json: options.Json = False, html: options.Html = None, show: options.Open = False
) -> None:
    """Show the newest run of a plan: attempts, hours, dollars at the quoted rate, and what was checked."""
    from launcher.cli.report_page import page
    from launcher.records.documents import parse_report
    from launcher.workflow.run.status import status_of

    name = options.plan_name(run)
    folder = latest(name, Path.cwd())
    command = read_command(folder)
    if command is not None and not (folder.path / "report.json").is_file():
        raise UnreadableInputError(
            f"{name} has no report: its newest run is a {command.command}, {command.state}",
            hint=f"slipway status {name}",
        )
    document = folder.read_json("report.json")
    found = parse_report(document)
    target = options.page_path(html, name, "report", show=show)
    if target is not None:
        from launcher.cli.html import page as html_page
        from launcher.cli.html import report as report_html
        from launcher.workflow.run.timeline import timeline

        html_page.save(target, report_html.page(found, timeline(folder, found.attempts)), show=show)
    elif json:
        output.document(document)
    else:
        output.page(page(found, terminal_width(), everything=output.verbose()))
    if status_of(folder, found) == KILLED:
        output.say(f"\n  Its launch was killed: this is what was known then. next: slipway status {name}")
