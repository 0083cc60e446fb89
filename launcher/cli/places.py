"""Where a command works: whose runs it finds, and the environment of its AWS calls."""

import os
from collections.abc import Mapping
from contextvars import ContextVar
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from launcher.cli import completion, options, output
from launcher.cli.option_values import region_name
from launcher.model.errors import ImpossibleError

if TYPE_CHECKING:
    from launcher.workflow.history.run_index import RunLocation

PLACE: ContextVar[Any] = ContextVar("place", default=None)
"""The place of this command's run (workflow.history.run_index.Place) with its sandbox flag; None: this computer."""
PLACE_OPTIONS: Mapping[str, Any] = {
    "place_region": Annotated[
        str | None,
        typer.Option(
            "--region",
            parser=region_name,
            metavar="REGION",
            help="Find a run of any computer, by the Slipway stacks of this region.",
            autocompletion=completion.regions,
        ),
    ],
    "place_store": options.Store,
    "place_sandbox": options.AttachSandbox,
}
"""The options that `with_place` adds, by the names of their parameters."""


def with_place(command: options.Command) -> options.Command:
    """The command with --region and --store, by which `plan_name` finds the runs of other computers."""

    @wraps(command)
    def run(**arguments: Any) -> None:
        region, store, sandbox = (arguments.pop(name, None) for name in PLACE_OPTIONS)
        PLACE.set((region, store, bool(sandbox)) if region or store else None)
        command(**arguments)

    return options.declare_options(run, command, PLACE_OPTIONS, flags=("place_sandbox",))


def use_store(store: str | None, region: str | None, *, sandbox: bool) -> None:
    """Let `plan_name` find the runs of a store, for a command with a --region of its own; nothing without --store."""
    if store is not None:
        PLACE.set((region, store, sandbox))


def plan_name(text: str, region: str | None = None) -> str:
    """The name of a plan that was named, or whose file was.

    Args:
        text: a name or a file.
        region: the region whose stacks the command reads by the name: it needs no run, so none is found.

    Raises:
        UnreadableInputError: it is a file that cannot be read as a plan.
    """
    from launcher import plan_file

    name = plan_file.load(Path(text)).name if plan_file.is_path(text) else text
    output.SUBJECT.set(name)
    if fetched_runs(name) is None and region is None:
        _say_where(name)
    return name


def _say_where(name: str) -> None:
    """Say which folder a run is of, if it is not of this one."""
    from launcher.records.recent_runs import FOUND, state_folder
    from launcher.records.run_folder import home_of

    here = Path.cwd()
    home = home_of(name, here)
    if home.is_relative_to((state_folder(os.environ) / FOUND).resolve()):
        newer = f"slipway status {name} --region REGION looks for a newer one"
        output.say(f"  {name}: the run that --region or --store found last; {newer}")
    elif home != here:
        output.say(f"  {name} was launched in {home}")


def fetched_runs(name: str) -> Path | None:
    """The folder of a plan's runs that --region or --store found on other computers; None without these options."""
    if PLACE.get() is None:
        return None
    from launcher.records.run_folder import FETCHED
    from launcher.workflow.history.run_index import fetch

    root = fetch(name, *_index(), output.say)
    FETCHED.set(root)
    return root


def fetched_stores() -> Mapping[str, Path] | None:
    """The folders of all runs that --region or --store found, by their store; None without these options."""
    if PLACE.get() is None:
        return None
    from launcher.workflow.history.run_index import fetch_all

    return fetch_all(*_index())


def _index() -> "tuple[RunLocation, dict[str, str]]":
    """Where --region or --store look, and the environment of the calls."""
    from launcher.workflow.history.run_index import RunLocation

    region, store, sandbox = PLACE.get() or (None, None, False)
    return RunLocation(region=region, store=store), environment(sandbox=sandbox)


def environment(*, sandbox: bool) -> dict[str, str]:
    """The environment of a command's AWS calls: this process's, or that of the running sandbox.

    Raises:
        ImpossibleError: no sandbox runs.
    """
    if not sandbox:
        return dict(os.environ)
    from launcher.emulation import find_sandbox

    running = find_sandbox(os.environ, region_of(os.environ))
    if running is None:
        from launcher.emulation import all_running, used_in

        names = [sandbox.name for sandbox in all_running(os.environ)]
        hint = "; ".join(
            ["slipway sandbox start", *(f"slipway sandbox start --name {name} uses {name}" for name in names)]
        )
        raise ImpossibleError(f"no sandbox is running for this folder ({used_in(Path.cwd())})", hint=hint)
    return running.process_environment(os.environ)


def environment_of(name: str, *, sandbox: bool, region: str | None) -> dict[str, str]:
    """The environment of a command about a plan's newest run: the account's or the sandbox's.

    Args:
        name: the plan's name.
        sandbox: whether --sandbox was given: use the running sandbox, whatever the newest run used.
        region: the value of --region: without --sandbox, use the account in this region, whatever the newest run used.

    Raises:
        ImpossibleError: no sandbox is running.
    """
    if sandbox or region is not None:
        return environment(sandbox=sandbox)
    from launcher.submit.jobs import SchedulerEndedError
    from launcher.workflow.cluster.run_environment import SandboxOutOfReachError, environment_of_newest

    try:
        return dict(environment_of_newest(name, Path.cwd(), os.environ))
    except SandboxOutOfReachError as problem:
        raise ImpossibleError(problem.message, hint=problem.hint) from problem
    except SchedulerEndedError as problem:
        hint = (
            f"slipway report {name} shows what the run left; slipway sandbox start begins one that stays after a"
            " launch; --region uses your account instead"
        )
        raise ImpossibleError(problem.message, hint=hint) from problem


def region_of(environment: Mapping[str, str]) -> str:
    """The region that an environment names, us-east-1 without."""
    return environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or "us-east-1"
