"""`slipway init`: a commented plan file to start from."""

import re
import shlex
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from launcher.cli import options, output
from launcher.model.errors import ImpossibleError, UnreadableInputError
from launcher.model.request import NAME
from launcher.model.schema import SCHEMA_FILE, commented_file, json_schema
from launcher.records.run_folder import write_whole

if TYPE_CHECKING:
    from launcher.workflow.quote.imports.imported import Imported


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
    json: options.Json = False,
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
    imported = None
    if source is None:
        text = commented_file(name, serve=serve)
    else:
        from launcher.workflow.quote.imports.read import plan_text

        imported = _import_plan(source)
        text = plan_text(imported, source)
    try:
        write_whole(file, text, shared=True)
    except OSError as problem:
        hint = "name a file in a writable folder with free space"
        raise ImpossibleError(f"cannot write {file}: {problem.strerror}", hint=hint) from problem
    schema, said = _write_schema(file.parent)
    following = f"slipway plan {shlex.quote(str(file))}{_missing_option(imported)}"
    if json:
        from launcher.answers import init as answer

        output.document(answer.document(file, schema, imported, following))
        return
    output.say(f"wrote {file}{said}", "", f"  next: {following}")


def _write_schema(folder: Path) -> tuple[Path | None, str]:
    """Write the schema that a plan file names, for editors; return its path, and what is to be said of it."""
    path = folder / SCHEMA_FILE
    if path.exists():
        return path, ""
    try:
        write_whole(path, dumps(json_schema(), indent=2) + "\n", shared=True)
    except OSError:
        return None, f" (no {SCHEMA_FILE} for editors: slipway schema prints it)"
    return path, f" and {path}, its schema for editors"


def _import_plan(source: Path) -> "Imported":
    """The plan of another tool's file; what was lost and assumed is printed."""
    from launcher.catalog.load import load
    from launcher.workflow.quote.imports.read import import_file

    imported = import_file(source, load())
    for title, texts in (("lost", imported.lost), ("assumed", imported.assumed)):
        for text in texts:
            output.say(f"{title}: {text}")
    return imported


def _missing_option(imported: "Imported | None") -> str:
    """The option that a plan of another tool's file still needs."""
    if imported is None or imported.get("run.command") is None or imported.get("target.instance_type") is not None:
        return ""
    return " --type TYPE"
