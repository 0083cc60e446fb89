"""The door to the emulated AWS: the one module that imports it, and only for a command that uses it."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol, cast

from launcher.submit.shell import LocalShell


class Running(Protocol):
    """The record of a sandbox that keeps running."""

    @property
    def mark(self) -> str:
        """The value of `MARK` in its processes."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def port(self) -> int:
        """The port of its AWS."""

    @property
    def scheduler(self) -> str:
        """The scheduler of its clusters."""

    @property
    def since(self) -> str:
        """When it was started, ISO, UTC."""


class SandboxNode(Protocol):
    """A node of an emulated cluster."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def instance_id(self) -> str:
        """Its instance, empty without one."""


class LostNode(Protocol):
    """A node that was interrupted."""

    @property
    def node(self) -> str:
        """Its name."""

    @property
    def drained(self) -> bool:
        """Whether the job had left it."""


class GuardCalls(Protocol):
    """The guard of a stack, called on an accelerated clock."""

    @property
    def called(self) -> bool:
        """Whether it was called."""

    def start(self) -> None:
        """Begin to call it."""

    def end(self) -> None:
        """Stop the calls."""

    def finish(self) -> None:
        """Call it a last time."""


class Emulator(Protocol):
    """An emulated AWS with the clusters that are deployed into it (`launcher/sandbox/sandbox.py`)."""

    @property
    def record(self) -> Running | None:
        """The record of a sandbox that keeps running; None if it ends with the command."""

    @property
    def endpoint(self) -> str:
        """The URL of its AWS."""

    @property
    def environment(self) -> dict[str, str]:
        """The variables that make a process use it as AWS."""

    def process_environment(self, base: Mapping[str, str]) -> dict[str, str]:
        """A complete environment for a process that uses it as AWS."""

    def head_node(self, cluster: str, base: Mapping[str, str]) -> LocalShell:
        """A shell on the head node of a cluster."""

    def clusters(self) -> Sequence[str]:
        """The names of the running clusters."""

    def nodes(self, cluster: str) -> Sequence[SandboxNode]:
        """The current nodes of a cluster."""

    def groups(self, cluster: str) -> Sequence[Mapping[str, Any]]:
        """The maximum size of each queue of a cluster."""

    def scheduler_name(self, cluster: str) -> str:
        """The program that schedules the jobs of a cluster."""

    def jobs(self, cluster: str) -> Sequence[Mapping[str, Any]]:
        """The jobs of a cluster."""

    def running_jobs(self) -> Sequence[str]:
        """The waiting and running jobs as text."""

    def stacks(self) -> Sequence[Mapping[str, str]]:
        """The stacks."""

    def not_emulated(self, stacks: Collection[str] | None = None) -> Mapping[str, str]:
        """Features of some stacks that are not emulated, each with the reason."""

    def create_prerequisites(self, *args: Any, **named: Any) -> tuple[str, ...]:
        """Create resources that a plan names as existing."""

    def s3_requests(self) -> Sequence[Any]:
        """The requests to its S3."""

    def server_log(self) -> str:
        """The errors of its server."""

    def lose_node(self, cluster: str, node: str, *, notice_s: float) -> LostNode:
        """Interrupt a spot instance, with notice."""

    def fail_node(self, cluster: str, node: str) -> None:
        """A hardware failure of a node, without notice."""

    def replace_node(self, cluster: str, node: str) -> None:
        """Start another instance in place of a lost node."""

    def interrupt_job(self, name: str) -> None:
        """Take the instances of a training job, without notice."""

    def guard_schedule(self, stack: str, module: str, base: Mapping[str, str]) -> GuardCalls:
        """The guard of a stack, for calls on an accelerated clock."""


def attached(environment: Mapping[str, str], region: str) -> Emulator | None:
    """The sandbox that keeps running, ready for use; None if none runs."""
    record = find(environment)
    return None if record is None else attach(record, region)


def attach(record: Running, region: str) -> Emulator:
    """A sandbox that keeps running, from its record."""
    from launcher.sandbox.running_sandbox import RunningSandbox
    from launcher.sandbox.sandbox import Sandbox

    return Sandbox.attached(cast("RunningSandbox", record), region=region)


def temporary(region: str, scheduler: str) -> AbstractContextManager[Emulator]:
    """A new sandbox, which ends with the block."""
    from launcher.sandbox.sandbox import Sandbox

    return Sandbox(region=region, scheduler=scheduler)


def create_prerequisites(
    emulator: Emulator,
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


def find(environment: Mapping[str, str], name: str | None = None) -> Running | None:
    """The record of a sandbox that keeps running, by default that of the current folder; None if it does not run."""
    from launcher.sandbox import running_sandbox

    return running_sandbox.find(environment, name)


def all_running(environment: Mapping[str, str]) -> tuple[Running, ...]:
    """The records of all running sandboxes of the user."""
    from launcher.sandbox import running_sandbox

    return running_sandbox.all_running(environment)


def start(environment: Mapping[str, str], *, folder: Path, scheduler: str, port: int, name: str | None) -> Running:
    """Start a sandbox that keeps running, and let a folder use it."""
    from launcher.sandbox import running_sandbox

    started = running_sandbox.start(environment, scheduler=scheduler, port=port, name=name)
    running_sandbox.select(folder, started.name)
    return started


def use(environment: Mapping[str, str], folder: Path, name: str) -> Running | None:
    """Let a folder use a running sandbox by name; None if none of that name runs, or the folder uses it already."""
    from launcher.sandbox import running_sandbox

    if running_sandbox.checked_name(name) == running_sandbox.selected_in(folder):
        return None
    recorded = running_sandbox.find(environment, name)
    if recorded is not None:
        running_sandbox.select(folder, name)
    return recorded


def stop(environment: Mapping[str, str]) -> Running | None:
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
