"""`slipway accuracy`: how good the quotes of one's own runs were."""

from pathlib import Path

import typer

from launcher.cli import options, output
from launcher.cli.table import terminal_width


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("accuracy")(accuracy)


def accuracy(*, json: options.Json = False) -> None:
    """Quoted against measured, of the runs of this folder: tokens a second, hours, dollars."""
    from launcher.cli.accuracy_page import page
    from launcher.records.accuracy_document import accuracy_document
    from launcher.workflow.measure.accuracy import run_accuracies

    runs, unread = run_accuracies(Path.cwd())
    if json:
        output.document(accuracy_document(runs, unread))
    else:
        output.page(page(runs, unread, terminal_width()))
