"""`slipway accuracy`: how accurate the quotes of your runs were."""

from pathlib import Path

import typer

from launcher.cli import options, output


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("accuracy")(accuracy)


def accuracy(*, json: options.Json = False) -> None:
    """Compare quotes with the measured runs of this folder: tokens per second, hours, dollars."""
    from launcher.answers.accuracy import document, page
    from launcher.workflow.history.accuracy import run_accuracies

    runs, unread = run_accuracies(Path.cwd())
    if json:
        output.document(document(runs, unread))
    else:
        output.page(page(runs, unread, output.terminal_width()))
