"""The command line: one command a file, one handler for everything that can go wrong."""

import gc
import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.main import get_command

from launcher.cli import output
from launcher.cli.coercion import lighten
from launcher.cli.summaries import SUMMARIES
from launcher.model.errors import DeclinedError, SlipwayError

COMMANDS = tuple(SUMMARIES)
INTERRUPTED, INTERNAL = 130, 1
COMPLETION = "_SLIPWAY_COMPLETE"
"""Variable of the environment by which a shell asks typer for the words that may follow."""
_USAGE_ERROR: type[Exception] = next(each for each in typer.BadParameter.__mro__ if each.__name__ == "ClickException")
"""Typer carries its own click and exports only some of its exceptions; this is their base."""


def _version(asked: bool) -> None:
    """Print the version and leave."""
    if not asked:
        return
    from importlib.metadata import PackageNotFoundError, version

    try:
        typer.echo(f"slipway {version('slipway')}")
    except PackageNotFoundError:
        typer.echo("slipway, not installed")
    raise typer.Exit


def _options(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="The version.")] = False,  # noqa: ARG001
    verbose: Annotated[
        bool, typer.Option("-v", "--verbose", help="Say more; show where an internal error is.")
    ] = False,
) -> None:
    """Options before the command."""
    if verbose:
        os.environ["SLIPWAY_VERBOSE"] = "1"


def application(names: Sequence[str] = COMMANDS) -> typer.Typer:
    """The command line with the commands of these modules."""
    app = typer.Typer(
        name="slipway",
        help="Price it, then launch it: training clusters and endpoints on AWS accelerators, with the dollars first.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    app.callback()(_options)
    for name in names:
        import_module(f"launcher.cli.{name}").register(app)
    return app


def front() -> typer.Typer:
    """The command line as its own help shows it: every command's name and summary, and nothing behind them."""
    app = application(())
    for name, summary in SUMMARIES.items():
        app.command(name, help=summary)(_nothing)
    return app


def _nothing() -> None:
    """What stands for a command in the front."""


def __getattr__(name: str) -> Any:
    """`app`, with every command; it is built when it is asked for, so that one command loads no other's modules."""
    if name == "app":
        return application()
    raise AttributeError(name)


def _asked(words: Sequence[str]) -> typer.Typer:
    """The command line as far as the words need it: one command, or the front where they name none.

    A shell that completes a word sends none of them, and needs everything.
    """
    first = next((word for word in words if word not in ("-v", "--verbose")), "")
    if first in SUMMARIES:
        return application((first,))
    return application() if COMPLETION in os.environ else front()


def main() -> None:
    """Run a command and leave with the exit code of the contract."""
    for stream in (sys.stdout, sys.stderr):
        # A name from a file or a cluster may hold what cannot be encoded.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        # What a short command makes lives to its end: looking for garbage every few hundred objects finds none.
        gc.set_threshold(20_000, 50, 50)
        command = get_command(_asked(sys.argv[1:]))
        lighten(command)
        code = command(standalone_mode=False)
    except DeclinedError as answer:
        output.say(answer.message)
        code = answer.exit_code
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
            import traceback

            traceback.print_exc()
        output.refusal(
            SlipwayError(f"internal error: {type(problem).__name__}: {problem}", hint="run it again with -v")
        )
        code = INTERNAL
    sys.exit(code if isinstance(code, int) else 0)
