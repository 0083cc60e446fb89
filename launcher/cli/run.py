"""`slipway run`: launch a command without a plan file; the file that it would need is written."""

from pathlib import Path
from typing import Annotated

import typer

from launcher.cli import options, output
from launcher.cli.launch import launch
from launcher.model.errors import DeclinedError, ImpossibleError
from launcher.records.run_folder import write_whole

WRITTEN = "# Written for one command by its run, which may replace this file."
"""The first line of a plan file that this command may replace."""
Name = Annotated[
    str | None, typer.Option("--name", help="Name of the plan; default: from the command, as train of train.py.")
]
Hours = Annotated[
    float,
    typer.Option("--hours", min=0.01, metavar="H", help="Hours that the job is assumed to take, for the quote."),
]
File = Annotated[
    Path | None, typer.Option("--file", metavar="FILE", help="The plan file to write; default: NAME.slipway.yaml.")
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("run")(options.with_settings(run))


def run(
    command: Annotated[list[str], typer.Argument(metavar="-- CMD...", help="The command and its arguments.")],
    *,
    name: Name = None,
    hours: Hours = 1.0,
    file: File = None,
    sandbox: options.InSandbox = False,
    yes: options.Yes = False,
    dry_run: options.DryRun = False,
    json: options.Json = False,
    region: options.Region = None,
    max_usd: options.MaxUsd = None,
    max_price_age: options.MaxPriceAge = None,
) -> None:
    """Launch a command on instances without a plan file: price it, ask, run it to its end, report.

    The command runs once on each node, in a copy of the current folder. The plan file is written and stays, for
    slipway launch, quote and compare. Without a model (--set workload.train.model=...), the quote is for --hours.
    """
    from launcher.workflow.quote.command_plan import command_plan, name_of

    chosen = name or name_of(command)
    path = file or Path(f"{chosen}.slipway.yaml")
    settings = options.SETTINGS.get()
    text = f"{WRITTEN}\n{command_plan(chosen, command, hours, settings, region=region)}"
    new = _write(path, text)
    # The file has them now.
    options.SETTINGS.set(())
    output.say(f"{'wrote' if new else 'replaced'} {path}")
    try:
        launch(
            path,
            sandbox=sandbox,
            yes=yes,
            dry_run=dry_run,
            json=json,
            max_usd=max_usd,
            max_price_age=max_price_age,
        )
    except DeclinedError:
        if new:
            path.unlink()
        raise


def _write(path: Path, text: str) -> bool:
    """Write the plan file, and whether there was none.

    Raises:
        ImpossibleError: a file is there that this command did not write, or cannot be replaced.
    """
    new = not path.exists()
    try:
        if not new and not path.read_text(encoding="utf-8", errors="replace").startswith(WRITTEN):
            hint = f"--file FILE names another; slipway launch {path} launches it"
            raise ImpossibleError(f"{path} exists, and no run of a command wrote it", hint=hint)
        write_whole(path, text)
    except OSError as problem:
        raise ImpossibleError(f"cannot write {path}: {problem.strerror}", hint="--file FILE names another") from problem
    return new
