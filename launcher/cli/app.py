"""The command line: one file for each command, one handler for all errors."""

import errno
import gc
import io
import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.main import get_command

from launcher.cli import completion, output
from launcher.cli.coercion import lighten
from launcher.cli.missing_values import refuse_missing_values
from launcher.model.errors import DeclinedError, SlipwayError, UnreadableInputError

SUMMARIES: Mapping[str, str] = {
    "init": "Write a plan file that works unchanged, with every other key as a comment.",
    "schema": "Print the JSON Schema of a plan file, or of a document that commands print with --json.",
    "plan": "Show the total dollars to finish a job with every purchase option. Makes no AWS call; spends nothing.",
    "quote": "Quote one candidate: cost lines, safety policies, gate result; --explain adds assumptions.",
    "compare": (
        "Compare all options of one job, and GPU with Trainium including the port. Makes no AWS call; spends nothing."
    ),
    "models": "List the models that a plan can name, or show one: dimensions, context, source.",
    "portfolio": (
        "Show the best option for each of several plans and one monthly total. Makes no AWS call; spends nothing."
    ),
    "commit": ("Recommend Savings Plans and reservations for several plans, with savings and risks. Buys nothing."),
    "diff": (
        "Show how changed plans change totals, by plan and cost line, and why. Makes no AWS call; spends nothing."
    ),
    "estimate": ("Price the accelerators, storage and network of any CloudFormation app (cdk.out) per hour and month."),
    "render": "Write the files that a plan would deploy and submit. Executes nothing.",
    "deploy": "Price a plan and deploy its cluster without a job, or its endpoint. --sandbox uses an emulated AWS.",
    "launch": ("Price a plan, deploy its cluster, run its job to the end, and report. The gate must allow the quote."),
    "run": "Launch a command on instances without a plan file: price it, ask, run it to its end, report.",
    "down": (
        "Remove a cluster and its network, or an endpoint. Keeps checkpoints; lists retained resources and their cost."
    ),
    "status": "Show the state of a plan's newest run: its job, attempts, steps, checkpoints.",
    "logs": "Print the logs of a plan's newest run, attempt by attempt.",
    "outputs": "List the files that a job stored as its outputs (`run.outputs`), or download them.",
    "attach": "Follow the job of a plan's newest run again, to its end. Ctrl-C leaves it running; exit 6 if it failed.",
    "ssh": "Open a shell on a node of a plan's running job (default: the first). Opens no port.",
    "exec": ("Run a command on a node of a plan's running job (default: the first), and exit with its exit code."),
    "nodes": "List the nodes of a cluster, or drain, reboot, replace, resume or check one. Needs no running job.",
    "debug": "Write one archive about a run and its cluster: events, logs, nodes, stacks. Secrets are masked.",
    "top": "Show a running job node by node: chip utilization, memory, power, step time, loss, dollars.",
    "tunnel": (
        "Forward a local port to a port of a node (TensorBoard, Jupyter) until Ctrl-C. Listens on localhost only."
    ),
    "cancel": "Cancel the job of a plan's newest run. Keeps its checkpoints and its cluster.",
    "report": "Show the newest run of a plan: attempts, hours, dollars used, and what was checked.",
    "runs": "List the runs under .slipway in this folder, newest first.",
    "ledger": "List all runs of this folder or a shared bucket: dollars quoted, used, billed, and per million tokens.",
    "spike": ("Measure the plan's own command in a short run on each instance type. Priced and gated like any launch."),
    "accuracy": "Compare quotes with the measured runs of this folder: tokens per second, hours, dollars.",
    "doctor": (
        "Check the account for a launch: permissions, quotas, capacity, names. Creates nothing and spends nothing."
    ),
    "capacity": (
        "List available Capacity Blocks, training plans, reservations and spot, with the total to finish on each."
    ),
    "cost": ("List every Slipway stack in the account: owner, start, dollars per hour, dollars so far, and end."),
    "policies": (
        "Write the IAM policies of the deployer and of CloudFormation, and print the commands that install them."
    ),
    "cdk": (
        "Run the CDK CLI with Slipway's app: slipway cdk -- diff -c plan=plan.yaml. Only -c gate=1 checks the gate."
    ),
    "approve": "Approve one launch, deployment or removal that an agent or a script then does once (--approval ID).",
    "mcp": "Serve Slipway's commands to an agent over the Model Context Protocol, on standard input and output.",
    "skill": (
        "Print instructions for a coding agent (SKILL.md): the commands that spend nothing, and what a person decides."
    ),
    "version": "Print the version, the dates of the prices, and the installed plugins.",
    "sandbox": "Start, show and stop an emulated AWS that keeps running.",
    "checkpoints": "List, verify, prune and restore the checkpoints of a job.",
    "prices": "Show the known prices, compare two days, read current prices from AWS.",
    "config": "Show a plan with the defaults of its layers.",
    "endpoint": "Use a deployed endpoint: its URL, a token, one request, a load test.",
}
"""By the name of the command, which is that of its module in this package; groups of commands come last."""


COMMANDS = tuple(SUMMARIES)
INTERRUPTED, INTERNAL = 130, 1
UNUSABLE = (errno.EACCES, errno.ENAMETOOLONG)
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
LOUD = ("-v", "--verbose")
NO_PAGER = "--no-pager"
_USAGE_ERROR: type[Exception] = next(base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException")
"""Typer carries its own click and exports only some of its exceptions; this is their base."""


class _InterruptedError(SlipwayError):
    """The user ended the command (Ctrl-C)."""

    exit_code = INTERRUPTED


def _version(requested: bool) -> None:
    if not requested or completion.VARIABLE in os.environ:
        return
    from importlib.metadata import PackageNotFoundError, version

    from launcher.model.distribution import DISTRIBUTION

    try:
        typer.echo(f"slipway {version(DISTRIBUTION)}")
    except PackageNotFoundError:
        typer.echo("slipway, not installed")
    raise typer.Exit


def _options(
    version: Annotated[  # noqa: ARG001
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("-v", "--verbose", help="Print more, and the traceback of an internal error.")
    ] = False,
    no_pager: Annotated[bool, typer.Option("--no-pager", help="Do not use a pager (like PAGER=cat).")] = False,
) -> None:
    if verbose:
        os.environ[output.VERBOSE] = "1"
    if no_pager:
        os.environ[output.PAGER] = "cat"


def application(names: Sequence[str] = COMMANDS) -> typer.Typer:
    """The command line with the commands of these modules."""
    app = typer.Typer(
        name="slipway",
        help="Price, then launch training clusters and endpoints on AWS accelerators.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    app.callback()(_options)
    for name in names:
        import_module(f"launcher.cli.{name}").register(app)
    # For commands without a short help, typer cuts the summary to the rest of the line.
    for command in app.registered_commands:
        command.short_help = SUMMARIES.get(str(command.name))
    for group in app.registered_groups:
        group.short_help = SUMMARIES.get(str(group.name))
        for command in group.typer_instance.registered_commands if group.typer_instance else ():
            command.short_help = (command.callback.__doc__ or "").partition("\n")[0] if command.callback else None
    return app


def front() -> typer.Typer:
    """The command line as its own help shows it: every command's name and summary, and nothing behind them."""
    app = application(())
    for name, summary in SUMMARIES.items():
        app.command(name, help=summary, short_help=summary)(_nothing)
    return app


def _nothing() -> None:
    """Placeholder for a command in the front."""


def __getattr__(name: str) -> Any:
    """Build `app` with every command on first access, so that one command does not import the others."""
    if name == "app":
        return application()
    raise AttributeError(name)


def _command_line(arguments: Sequence[str]) -> typer.Typer:
    """The command line as far as the words need it: one command, or the front where they name none."""
    first = next((word for word in arguments if word not in (*LOUD, NO_PAGER)), "")
    return application((first,)) if first in SUMMARIES else front()


def _complete() -> NoReturn:
    """Print shell completions; an error prints nothing, so that the user's line stays intact."""
    # Typer would have rich wrap what an option does, and a shell takes the second line for another word.
    sys.modules["rich"] = None  # type: ignore[assignment]
    try:
        command = get_command(_command_line(completion.typed_words(os.environ)))
        lighten(command)
        # Typer answers and leaves.
        command(args=[], standalone_mode=False)
    except Exception:  # noqa: BLE001 - as said above
        sys.exit(INTERNAL)
    sys.exit(INTERNAL)


def _options_first(arguments: Sequence[str]) -> list[str]:
    """Move -v and --no-pager to the front, wherever they were typed; words after -- are not options.

    >>> _options_first(["launch", "plan.yaml", "-v"]), _options_first(["cdk", "--", "diff", "-v"])
    (['-v', 'launch', 'plan.yaml'], ['cdk', '--', 'diff', '-v'])
    """
    end = list(arguments).index("--") if "--" in arguments else len(arguments)
    remaining = [word for word in arguments[:end] if word not in (*LOUD, NO_PAGER)]
    given = set(arguments[:end])
    return [*(["-v"] if given.intersection(LOUD) else []), *({NO_PAGER} & given), *remaining, *arguments[end:]]


def _silence() -> None:
    """Discard remaining output: the reader has gone, or the disk is full."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _print_refusal(problem: SlipwayError) -> int:
    cause = problem.__cause__
    if isinstance(cause, FileNotFoundError) and not _has_folder():
        return _refused_by_system(cause)
    output.refusal(problem)
    return problem.exit_code


def _refused_by_system(problem: OSError) -> int:
    if isinstance(problem, FileNotFoundError) and not _has_folder():
        place = os.environ.get("PWD", "its path is not known")
        message = f"the folder that this terminal is in was removed ({place})"
        output.refusal(UnreadableInputError(message, hint="cd to a folder that exists, then run it again"))
        return UnreadableInputError.exit_code
    if problem.errno in UNUSABLE and problem.filename is not None:
        message = f"cannot use {problem.filename}: {problem.strerror}"
        hint = "name a file or folder that you can read; HOME and XDG_* set where Slipway's own files are"
        output.refusal(UnreadableInputError(message, hint=hint))
        return UnreadableInputError.exit_code
    if problem.errno not in NO_ROOM:
        return _internal(problem)
    _silence()
    message = f"cannot write {problem.filename or 'the output'}: {problem.strerror}"
    output.refusal(SlipwayError(message, hint="make room, then run it again: nothing half written was left"))
    return INTERNAL


def _has_folder() -> bool:
    try:
        Path.cwd()
    except FileNotFoundError:
        return False
    return True


def _internal(problem: Exception) -> int:
    """Report an internal error and its place, with its traceback if verbose; a launch of hours is not run again."""
    if output.verbose():
        import traceback

        traceback.print_exception(problem)
    message = f"internal error: {type(problem).__name__}: {problem}{_place_of(problem)}"
    output.refusal(SlipwayError(message, hint="run it again with -v"))
    return INTERNAL


def _place_of(problem: Exception) -> str:
    """The last line of this package that an error passed through."""
    place, trace = "", problem.__traceback__
    while trace is not None:
        module = str(trace.tb_frame.f_globals.get("__name__"))
        if module.partition(".")[0] == "launcher":
            place = f" (in {module}, line {trace.tb_lineno})"
        trace = trace.tb_next
    return place


def _report_usage_error(problem: Any) -> int:
    """Report a usage error in typer's form, or as JSON if --json was given."""
    # Typer has some words checked by Pydantic, which begins so.
    problem.message = problem.message.removeprefix("Value error, ")
    if output.wants_json():
        path = problem.ctx.command_path if problem.ctx is not None else "slipway"
        output.refusal(UnreadableInputError(problem.format_message(), hint=f"{path} --help"))
    else:
        problem.show()
    return int(problem.exit_code)


def _encode_anything() -> None:
    """Let a name from a file or a cluster hold what cannot be encoded."""
    # A stream that the caller has closed is None. Children inherit its descriptor, so it is taken all the same.
    sys.stdout = sys.stdout or os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")
    sys.stderr = sys.stderr or os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _refuse_closed_output(*, closed: bool) -> None:
    """Stop before any work if standard output is closed; the result would be lost without a message.

    Raises:
        SlipwayError: standard output is closed.
    """
    if closed:
        # A JSON error would go to standard output, too.
        output.WRITTEN.set()
        message = f"write error: {os.strerror(errno.EBADF)}: standard output is closed"
        raise SlipwayError(message, hint="to discard the output, send it to /dev/null")


def main() -> None:
    """Run a command and leave with the exit code of the contract."""
    closed = sys.stdout is None
    _encode_anything()
    output.WRITTEN.clear()
    if completion.VARIABLE in os.environ:
        _complete()
    try:
        _refuse_closed_output(closed=closed)
        arguments = _options_first(sys.argv[1:])
        command = get_command(_command_line(arguments))
        lighten(command)
        refuse_missing_values(command, sys.argv[1:])
        code = command(args=arguments, standalone_mode=False)
        if code == INTERRUPTED and output.wants_json():
            # Typer turns Ctrl-C into this code.
            output.refusal(_InterruptedError("interrupted"))
        sys.stdout.flush()
    except DeclinedError as answer:
        output.refusal(answer, sign="")
        code = answer.exit_code
    except SlipwayError as problem:
        code = _print_refusal(problem)
    except _USAGE_ERROR as problem:
        code = _report_usage_error(problem)
    except (typer.Abort, KeyboardInterrupt):
        output.refusal(_InterruptedError("interrupted"), sign="")
        code = INTERRUPTED
    except (BrokenPipeError, output.OutputClosedError):
        _silence()
        code = 0
    except OSError as problem:
        code = _refused_by_system(problem)
    except Exception as problem:  # noqa: BLE001 - the last line of defence: a person gets a sentence, not a traceback
        code = _internal(problem)
    # What is left goes back to the system with the process; Python need not look through it first.
    gc.freeze()
    sys.exit(code if isinstance(code, int) else 0)
