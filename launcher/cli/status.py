"""`slipway status`: the state of a run."""

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from launcher.cli import options, output, places
from launcher.model.errors import UnreadableInputError

if TYPE_CHECKING:
    from launcher.records.run_state import RunState

POLL_S = 15.0
"""Seconds between two polls of --watch; each polls the head node."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("status")(places.with_place(status))


def status(
    run: options.RunName,
    *,
    json: options.Json = False,
    watch: Annotated[bool, typer.Option("--watch", help="Repeat until the job ends.")] = False,
) -> None:
    """Show the state of a plan's newest run: its job, attempts, steps, checkpoints.

    For a running job it shows tokens per second, the expected end, the cost so far and the forecast beside the quote.
    "stopped" is a job that the guard ended at budget.stop_at_usd; it can resume from the step shown.

    The command also reads how long the nodes of ended runs stayed up; later quotes use these times.
    """
    if json and watch:
        raise UnreadableInputError("--watch and --json exclude each other", hint="use one of them")
    from launcher.answers import status as answer
    from launcher.workflow.run.status import run_state, with_running_job

    name = places.plan_name(run)
    state = run_state(name, with_running_job(name, Path.cwd(), os.environ, output.say), os.environ, output.say)
    if watch:
        state = _watch_job(name, state)
    output.answer(answer, state, json=json)


def _watch_job(name: str, state: "RunState") -> "RunState":
    """Look again until the job is over, with the meter at every look; the last state."""
    from launcher.cli.console import StepPrinter
    from launcher.workflow.run.status import GOING_ON, run_state, with_running_job

    console, shown = StepPrinter(), ""
    while state.status in GOING_ON:
        if state.meter is not None:
            console.meter(state.meter)
        elif state.status != shown:
            shown = state.status
            output.say(f"  {state.name}: {shown}; its job has not started")
        time.sleep(POLL_S)
        state = run_state(name, with_running_job(name, Path.cwd(), os.environ, output.say), os.environ, output.say)
    return state
