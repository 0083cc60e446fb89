"""`slipway run`: launch a command without a plan file; the file that it would need is written."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from launcher.catalog.regular_file import UnusableFileError, read_regular
from launcher.cli import options, output
from launcher.cli.confirm import refuse_without_terminal
from launcher.cli.launch import launch
from launcher.model.errors import DeclinedError, ImpossibleError, SlipwayError
from launcher.plan_file import MAX_BYTES
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
OPTIONS = {
    "name": "--name",
    "workload.train.hours": "--hours",
    "target.instance_type": "--type",
    "target.nodes": "--nodes",
    "target.region": "--region",
    "purchase.option": "--spot",
    "run.env": "--env",
    "run.command": "the command after --",
}
"""The option of each key of the plan that has one; --set sets the others."""


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

    One node on demand, unless options or your files of defaults say otherwise. The command runs once on each node, in
    a copy of the current folder. The plan file is written and stays, for slipway launch, quote and compare. Without a
    model (--set workload.train.model=...), the quote is for --hours.
    """
    from launcher.workflow.quote.command_plan import command_plan, name_of
    from launcher.workflow.quote.price import price

    chosen = name or name_of(command)
    path = file or Path(f"{chosen}.slipway.yaml")
    settings = options.SETTINGS.get()
    text = f"{WRITTEN}\n{command_plan(path, chosen, command, hours, settings, region=region)}"
    earlier = _write(path, text)
    # The file has them now.
    options.SETTINGS.set(())
    try:
        price_options = options.price_options(region=None, max_price_age=max_price_age, max_usd=max_usd)
        # What is wrong with the command comes before the question, and leaves no file.
        blocking = price(path, options.now(), price_options).blocking
        if blocking:
            raise ImpossibleError("the command cannot be launched", findings=blocking)
        if not sandbox and not dry_run:
            refuse_without_terminal("launch", yes=yes)
    except SlipwayError as problem:
        _restore(path, earlier)
        raise in_options(problem, path) from problem
    kept = not dry_run
    if kept:
        output.say(f"{'wrote' if earlier is None else 'replaced'} {path}")
    else:
        output.say(f"would {'write' if earlier is None else 'replace'} {path}")
    try:
        launch(path, sandbox=sandbox, yes=yes, dry_run=dry_run, json=json, max_usd=max_usd, max_price_age=max_price_age)
    except DeclinedError:
        kept = False
        raise
    finally:
        if not kept:
            _restore(path, earlier)


def in_options(problem: SlipwayError, path: Path) -> SlipwayError:
    """A refusal of the written plan in the words of the command line: the user wrote no file, and it has no lines."""
    findings = [replace(finding, path=_option(finding.path), line=None, column=None) for finding in problem.findings]
    same = type(problem)
    message = problem.message.replace(str(path), "the command line")
    return same(message, hint=problem.hint, findings=findings)


def _option(key: str) -> str:
    """The option of a key.

    >>> _option("target.instance_type"), _option("run.env.A"), _option("storage.lustre_gib"), _option("")
    ('--type', '--env A', '--set storage.lustre_gib', '')
    """
    parent, _, variable = key.rpartition(".")
    if parent == "run.env":
        return f"{OPTIONS[parent]} {variable}"
    plain = re.sub(r"\[\d+\]", "", key)
    return OPTIONS.get(plain, f"--set {key}" if key else "")


def _restore(path: Path, earlier: str | None) -> None:
    """Give the plan file its earlier text back; remove it if there was none."""
    if earlier is None:
        path.unlink()
    else:
        write_whole(path, earlier)


def _write(path: Path, text: str) -> str | None:
    """Write the plan file, and return its earlier text; None if there was none.

    Raises:
        ImpossibleError: a file is there that this command did not write, or cannot be replaced.
    """
    try:
        earlier = read_regular(path, MAX_BYTES).decode(errors="replace") if path.exists() else None
        if earlier is not None and not earlier.startswith(WRITTEN):
            hint = f"--file FILE names another; slipway launch {path} launches it"
            raise ImpossibleError(f"{path} exists, and no run of a command wrote it", hint=hint)
        write_whole(path, text)
    except UnusableFileError as problem:
        raise ImpossibleError(f"cannot write {path}: {problem}", hint="--file FILE names another") from problem
    except OSError as problem:
        raise ImpossibleError(f"cannot write {path}: {problem.strerror}", hint="--file FILE names another") from problem
    return earlier
