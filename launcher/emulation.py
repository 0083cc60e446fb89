"""The door to the emulated AWS: the one module that imports it, and only for a command that uses it."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # For type checkers alone: a launch on AWS loads nothing of the emulator.
    from launcher.sandbox.guard_schedule import GuardSchedule as GuardSchedule  # noqa: PLC0414  re-exported
    from launcher.sandbox.running_sandbox import RunningSandbox as RunningSandbox  # noqa: PLC0414  re-exported
    from launcher.sandbox.sandbox import Sandbox as Sandbox  # noqa: PLC0414  re-exported


def find_sandbox(
    environment: Mapping[str, str], region: str, *, folder: Path | None = None, mark: str | None = None
) -> "Sandbox | None":
    """The running sandbox that a folder uses (None: the current one), or that of a mark; None if it does not run."""
    record = find(environment, None if folder is None else used_in(folder))
    if mark is not None and (record is None or record.mark != mark):
        # Its run may have been launched in another folder, which uses another sandbox.
        record = next((running for running in all_running(environment) if running.mark == mark), None)
    return None if record is None else attach(record, region)


def attach(record: "RunningSandbox", region: str) -> "Sandbox":
    """A sandbox that keeps running, from its record."""
    from launcher.sandbox.sandbox import Sandbox

    return Sandbox.attach(record, region=region)


def temporary(region: str, scheduler: str) -> "AbstractContextManager[Sandbox]":
    """A new sandbox, which ends with the block."""
    from launcher.sandbox.sandbox import Sandbox

    return Sandbox(region=region, scheduler=scheduler)


def create_prerequisites(
    emulator: "Sandbox",
    *,
    training_plans: Iterable[Mapping[str, Any]],
    cluster: Mapping[str, Any] | None,
    **named: Any,
) -> tuple[str, ...]:
    """Create the resources that a plan names as existing; return the ids and names of the created ones.

    Args:
        emulator: the sandbox.
        training_plans: the fields of each `TrainingPlan` (launcher/sandbox/cluster/training_plan.py).
        cluster: the fields of an `ExistingCluster` (launcher/sandbox/cluster/existing.py).
        named: VPC, zones by subnet, security groups and buckets, as `Sandbox.create_prerequisites` has them.
    """
    from launcher.sandbox.cluster.existing import ExistingCluster
    from launcher.sandbox.cluster.training_plan import TrainingPlan

    plans = [TrainingPlan(**facts) for facts in training_plans]
    existing = None if cluster is None else ExistingCluster(**cluster)
    return emulator.create_prerequisites(training_plans=plans, cluster=existing, **named)


def chart_files() -> Mapping[str, bytes]:
    """The sandbox's own small chart and layer, by their names in an assembly."""
    from launcher.sandbox.kubernetes.hyperpod_chart import emulated_files

    return emulated_files()


def endpoint_gaps() -> Sequence[str]:
    """Features of an endpoint that a deployment into the sandbox does not test."""
    from launcher.sandbox.endpoint.model_server import LEFT_OUT

    return LEFT_OUT


def guard_clock() -> tuple[float, float]:
    """The clock of the sandbox's guards: seconds between two calls, and the minutes that each of them counts."""
    from launcher.sandbox.guard_schedule import PERIOD, POLL_S

    return POLL_S, PERIOD.total_seconds() / 60


def find(environment: Mapping[str, str], name: str | None = None) -> "RunningSandbox | None":
    """The record of a sandbox that keeps running, by default that of the current folder; None if it does not run."""
    from launcher.sandbox import running_sandbox

    return running_sandbox.find(environment, name)


def all_running(environment: Mapping[str, str]) -> "tuple[RunningSandbox, ...]":
    """The records of all running sandboxes of the user."""
    from launcher.sandbox import running_sandbox

    return running_sandbox.all_running(environment)


def runs_elsewhere(environment: Mapping[str, str], mark: str) -> bool:
    """Whether a sandbox runs that was started with another HOME or XDG_CACHE_HOME than those of this environment."""
    from launcher.sandbox import running_sandbox

    return running_sandbox.runs_elsewhere(environment, mark)


def start(
    environment: Mapping[str, str], *, folder: Path, scheduler: str, port: int, name: str | None
) -> "RunningSandbox":
    """Start a sandbox that keeps running, and let a folder use it."""
    from launcher.sandbox import running_sandbox

    started = running_sandbox.start(environment, scheduler=scheduler, port=port, name=name)
    running_sandbox.select(folder, started.name)
    return started


def use(environment: Mapping[str, str], folder: Path, name: str) -> "RunningSandbox | None":
    """Let a folder use a running sandbox by name; None if none of that name runs, or the folder uses it already."""
    from launcher.sandbox import running_sandbox

    if running_sandbox.checked_name(name) == running_sandbox.selected_in(folder):
        return None
    recorded = running_sandbox.find(environment, name)
    if recorded is not None:
        running_sandbox.select(folder, name)
    return recorded


def stop(environment: Mapping[str, str]) -> "RunningSandbox | None":
    """End the sandbox of the current folder, with everything in it; None if none runs."""
    from launcher.sandbox import running_sandbox

    return running_sandbox.stop(environment)


def used_in(folder: Path) -> str:
    """The name of the sandbox that a folder uses."""
    from launcher.sandbox import running_sandbox

    return running_sandbox.selected_in(folder)


def record_file(environment: Mapping[str, str]) -> Path:
    """The file with the address and the secret of the folder's sandbox, readable by its owner alone."""
    from launcher.sandbox import running_sandbox

    return running_sandbox.folder_of(environment)
