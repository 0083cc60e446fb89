"""`slipway cancel`: cancel a run's job."""

import os
from pathlib import Path

import typer

from launcher.cli import options, output, places
from launcher.cli.confirm import confirm
from launcher.records.submission import SANDBOX


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("cancel")(places.with_place(cancel))


def cancel(
    run: options.RunName,
    *,
    yes: options.Yes = False,
    json: options.Json = False,
) -> None:
    """Cancel the job of a plan's newest run. Keeps its checkpoints and its cluster.

    A job that has ended is not changed.
    """
    from launcher.answers import status as answer
    from launcher.targets.registry import target_of
    from launcher.workflow.run.cancel import cancel_run
    from launcher.workflow.run.status import with_running_job

    name = places.plan_name(run)
    folder = with_running_job(name, Path.cwd(), os.environ, output.say)
    confirm(f"cancel the job of {name}", yes=yes)
    cancellation = cancel_run(name, folder, os.environ, output.talking())
    if json:
        output.document(answer.document(cancellation))
    else:
        output.result(answer.page(cancellation, output.terminal_width()))
        sent = cancellation.submission
        if sent is not None and sent.head_node.via not in ("local", "ssh") and not target_of(sent.target).per_job:
            flag = " --sandbox" if sent.head_node.via == SANDBOX else ""
            output.say("", f"  the cluster is still billed; remove it: slipway down {sent.cluster}{flag}")
