"""`slipway init`: a commented plan file to start from."""

import json
import re
import shlex
from pathlib import Path
from typing import Annotated

import typer

from launcher.cli import output
from launcher.model.errors import ImpossibleError, UnreadableInputError
from launcher.model.request import NAME
from launcher.model.schema import SCHEMA_FILE, commented_file, json_schema
from launcher.records.run_folder import write_whole


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("init")(init)


def init(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write.")] = Path("plan.yaml"),
    *,
    name: Annotated[str, typer.Option("--name", help="Name of the plan: a-z, 0-9 and -.")] = "my-job",
    serve: Annotated[
        bool, typer.Option("--serve", help="Write a plan for a serving load instead of a training job.")
    ] = False,
    source: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="SOURCE",
            help="Read an sbatch script, SkyPilot or dstack task, ParallelCluster configuration, torchx component.",
        ),
    ] = None,
) -> None:
    """Write a plan file that works unchanged, with every other key as a comment.

    With --from, the file has what another tool's file says; its first lines name what was lost and what is assumed.
    """
    if not re.fullmatch(NAME.pattern or "", name):
        raise UnreadableInputError(f"--name must be {NAME.form}, got {name!r}", hint="slipway init --name my-job")
    if file.exists() and (source is None or source.exists()):
        other = file.with_name(f"{file.stem}-2{file.suffix}")
        words = "" if source is None else f" --from {shlex.quote(str(source))}"
        raise ImpossibleError(f"{file} exists", hint=f"slipway init {shlex.quote(str(other))}{words}")
    text, option = (commented_file(name, serve=serve), "") if source is None else _import_plan(source)
    try:
        write_whole(file, text, shared=True)
    except OSError as problem:
        hint = "name a file in a writable folder with free space"
        raise ImpossibleError(f"cannot write {file}: {problem.strerror}", hint=hint) from problem
    output.say(f"wrote {file}{_with_schema(file.parent)}", "", f"  next: slipway plan {shlex.quote(str(file))}{option}")


def _with_schema(folder: Path) -> str:
    """Write the schema that the first line of a plan file names, for editors; what is to be said of it."""
    path = folder / SCHEMA_FILE
    if path.exists():
        return ""
    try:
        write_whole(path, json.dumps(json_schema(), indent=2) + "\n", shared=True)
    except OSError:
        return f" (no {SCHEMA_FILE} for editors: slipway schema prints it)"
    return f" and {path}, its schema for editors"


def _import_plan(source: Path) -> tuple[str, str]:
    """The plan of another tool's file, and the option that it still needs; what was lost and assumed is printed."""
    from launcher.catalog.load import load
    from launcher.workflow.quote.imports.read import import_file, plan_text

    imported = import_file(source, load())
    for title, texts in (("lost", imported.lost), ("assumed", imported.assumed)):
        for text in texts:
            output.say(f"{title}: {text}")
    needs_type = imported.get("run.command") is not None and imported.get("target.instance_type") is None
    return plan_text(imported, source), " --type TYPE" if needs_type else ""
