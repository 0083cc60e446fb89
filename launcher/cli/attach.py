"""`slipway attach`: follow a run again, as its launch did."""

import os
import sys
from pathlib import Path

import typer

from launcher.cli import options, output, places


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("attach")(places.with_place(attach))


def attach(run: options.RunName) -> None:
    """Follow the job of a plan's newest run again, to its end. Ctrl-C leaves it running; exit 6 if it failed."""
    from launcher.answers import status as answer
    from launcher.cli.console import StepPrinter
    from launcher.cli.terminal_text import TerminalText
    from launcher.model.errors import DeploymentFailedError
    from launcher.model.report import RunStatus
    from launcher.workflow.run.status import run_state, with_running_job
    from launcher.workflow.run.status_logs import follow_logs

    name = places.plan_name(run)
    folder = with_running_job(name, Path.cwd(), os.environ, output.say)
    filtered = TerminalText() if sys.stdout.isatty() else None

    def write(data: bytes) -> None:
        sys.stdout.buffer.write(data if filtered is None else filtered.visible(data))
        sys.stdout.buffer.flush()

    try:
        follow_logs(name, folder, os.environ, write=write, notify=output.say, on_meter=StepPrinter().meter)
    except KeyboardInterrupt:
        followed = f"  next: slipway attach {name}", f"  next: slipway cancel {name}"
        output.say("", f"  the job of {name} continues", *followed)
        raise
    state = run_state(name, folder, os.environ, output.say)
    output.result(answer.page(state, output.terminal_width()))
    if state.status in ("failed", "stopped"):
        raise DeploymentFailedError(f"the job of {name} {RunStatus(state.status).text}", hint=f"slipway logs {name}")
