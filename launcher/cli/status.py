"""`slipway status`: how a run stands."""

import os
from pathlib import Path
from typing import Annotated

import typer

from launcher.cli import options, output
from launcher.cli.table import terminal_width
from launcher.records.run_folder import latest


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("status")(status)


def status(name: Annotated[str, typer.Argument(help="The plan's name.")], *, json: options.Json = False) -> None:
    """Ask the cluster how the newest run of a plan stands: its job, attempts, steps, checkpoints."""
    from launcher.cli.status_page import page
    from launcher.workflow.run.status import standing, status_document

    found = standing(name, latest(name, Path.cwd()), os.environ)
    if json:
        output.document(status_document(found))
    else:
        output.result(page(found, terminal_width()))
