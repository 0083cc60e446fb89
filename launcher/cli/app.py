"""The command line: one command a file, one handler for everything that can go wrong."""

import os
import sys
import traceback
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated

import typer

from launcher.cli import deploy, init, launch, logs, output, plan, quote, render, report, runs, schema
from launcher.model.errors import SlipwayError

INTERRUPTED, INTERNAL = 130, 1
_USAGE_ERROR: type[Exception] = next(each for each in typer.BadParameter.__mro__ if each.__name__ == "ClickException")
"""Typer carries its own click and exports only some of its exceptions; this is their base."""

app = typer.Typer(
    name="slipway",
    help="Price it, then launch it: training clusters and endpoints on AWS accelerators, with the dollars first.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _version(asked: bool) -> None:
    """Print the version and leave."""
    if not asked:
        return
    try:
        typer.echo(f"slipway {version('slipway')}")
    except PackageNotFoundError:
        typer.echo("slipway, not installed")
    raise typer.Exit


@app.callback()
def _options(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="The version.")] = False,  # noqa: ARG001
    verbose: Annotated[
        bool, typer.Option("-v", "--verbose", help="Say more; show where an internal error is.")
    ] = False,
) -> None:
    """Options before the command."""
    if verbose:
        os.environ["SLIPWAY_VERBOSE"] = "1"


for command in (init, schema, plan, quote, render, deploy, launch, report, runs, logs):
    command.register(app)


def main() -> None:
    """Run a command and leave with the exit code of the contract."""
    try:
        code = app(standalone_mode=False)
    except SlipwayError as problem:
        output.refusal(problem)
        code = problem.exit_code
    except _USAGE_ERROR as problem:
        problem.show()  # type: ignore[attr-defined]
        code = problem.exit_code  # type: ignore[attr-defined]
    except (typer.Abort, KeyboardInterrupt):
        output.say("interrupted")
        code = INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except Exception as problem:  # noqa: BLE001 - the last line of defence: a person gets a sentence, not a traceback
        if "SLIPWAY_VERBOSE" in os.environ:
            traceback.print_exc()
        output.refusal(
            SlipwayError(f"internal error: {type(problem).__name__}: {problem}", hint="run it again with -v")
        )
        code = INTERNAL
    sys.exit(code if isinstance(code, int) else 0)
