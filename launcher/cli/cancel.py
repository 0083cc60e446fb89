"""`slipway cancel`: end a run's job for good."""

import os
from pathlib import Path

import typer

from launcher.cli import options, output
from launcher.cli.confirm import confirm
from launcher.records.run_folder import with_report
from launcher.records.submission import SANDBOX


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("cancel")(cancel)


def cancel(
    run: options.RunName,
    *,
    yes: options.Yes = False,
    json: options.Json = False,
) -> None:
    """Cancel the job of a plan's newest run. Keeps its checkpoints and its cluster.

    It does not change a job that has ended.
    """
    from launcher.answers import status as answer
    from launcher.workflow.run.cancel import cancel_run

    name = options.plan_name(run)
    folder = with_report(name, Path.cwd(), going_on=True)
    confirm(f"cancel the job of {name}", yes=yes)
    found = cancel_run(name, folder, os.environ, output.say)
    if json:
        output.document(answer.document(found))
    else:
        output.result(answer.page(found, output.terminal_width()))
        if found.submission is not None and found.submission.head_node.via not in ("local", "ssh"):
            there = " --sandbox" if found.submission.head_node.via == SANDBOX else ""
            output.say(f"\n  the cluster costs on: slipway down {found.submission.cluster}{there}")
