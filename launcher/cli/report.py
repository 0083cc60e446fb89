"""`slipway report`: what a run came to, beside what was quoted."""

from pathlib import Path
from typing import Annotated

import typer

from launcher.cli import options, output
from launcher.cli.report_page import page
from launcher.cli.table import terminal_width
from launcher.records.documents import parse_report
from launcher.records.run_folder import latest


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("report")(report)


def report(name: Annotated[str, typer.Argument(help="The plan's name.")], *, json: options.Json = False) -> None:
    """Show the newest run of a plan: attempts, hours, dollars at the quoted rate, and what was checked."""
    document = latest(name, Path.cwd()).read_json("report.json")
    if json:
        output.document(document)
    else:
        output.result(page(parse_report(document), terminal_width()))
