"""`slipway cancel`: end a run's job for good."""

import os
from pathlib import Path
from typing import Annotated

import typer

from launcher.cli import options, output
from launcher.cli.confirm import confirm
from launcher.cli.table import terminal_width
from launcher.records.run_folder import latest


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("cancel")(cancel)


def cancel(
    name: Annotated[str, typer.Argument(help="The plan's name.")],
    *,
    yes: options.Yes = False,
    json: options.Json = False,
) -> None:
    """Cancel the job of a plan's newest run. Its checkpoints stay, and so does its cluster."""
    from launcher.cli.status_page import page
    from launcher.workflow.run.cancel import cancel_run
    from launcher.workflow.run.status import status_document

    folder = latest(name, Path.cwd())
    confirm(f"cancel the job of {name}", yes=yes)
    found = cancel_run(name, folder, os.environ)
    if json:
        output.document(status_document(found))
    else:
        output.result(page(found, terminal_width()))
        if found.submission is not None and found.submission.head_node.via not in ("local", "ssh"):
            output.say(f"\n  the cluster costs on: slipway down {found.submission.cluster}")
