"""`slipway top`: a running job, node by node."""

import os
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from launcher.cli import options, output, places
from launcher.model.units import number_of

if TYPE_CHECKING:
    from launcher.workflow.run.top import JobNow

CLEAR = "\x1b[H\x1b[J"
"""To the first column of the first line, and erase what follows (ECMA-48, CUP and ED)."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("top")(places.with_place(top))


def top(
    run: options.RunName,
    *,
    every: Annotated[
        float, typer.Option("--every", min=2.0, metavar="SECONDS", help="Seconds between two looks.")
    ] = 10.0,
    once: Annotated[bool, typer.Option("--once", help="Look once, also in a terminal.")] = False,
    json: options.Json = False,
) -> None:
    """Show a running job node by node: chip utilization, memory, power, step time, loss, dollars.

    In a terminal the screen is drawn again until the job ends or Ctrl-C; into a pipe it is printed once. Each look runs
    nvidia-smi or neuron-monitor on every node of the job, as slipway exec does; the last look is drawn in the page of
    slipway report --html.
    """
    from launcher.answers import top as answer
    from launcher.records.node_look import keep_look
    from launcher.workflow.run.status import GOING_ON, with_running_job
    from launcher.workflow.run.top import look

    name = places.plan_name(run)
    folder = with_running_job(name, Path.cwd(), os.environ, output.say)

    def read_again() -> "JobNow":
        """A look, which is kept for the page of the report."""
        seen = look(name, folder, os.environ)
        keep_look(folder, answer.document(seen))
        return seen

    now = read_again()
    if json or once or not (sys.stdout.isatty() and os.environ.get("TERM") != "dumb"):
        output.answer(answer, now, json=json)
        return
    while True:
        room = shutil.get_terminal_size().lines - 1
        sys.stdout.write(CLEAR)
        output.result(_fitting(now, room))
        if now.state.status not in GOING_ON:
            return
        time.sleep(every)
        now = read_again()


def _fitting(now: "JobNow", room: int) -> list[str]:
    """The screen; of more nodes than rows, those that fit."""
    from launcher.answers.top import page

    lines = page(now, output.terminal_width())
    return (
        lines
        if len(lines) <= room
        else [*lines[: room - 1], f"  {number_of(len(lines) - room + 1, 'more line')}: --once | less"]
    )
