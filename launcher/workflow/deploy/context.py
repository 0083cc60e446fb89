"""What a deployment runs with, and what it results in."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

from launcher.catalog.load import Catalog
from launcher.cdk.runner import Runner
from launcher.emulation import find_sandbox
from launcher.model.instance_type import InstanceType
from launcher.model.stages import Notify
from launcher.workflow.cluster.readback.reading import QueueState, StackVerification

if TYPE_CHECKING:
    from launcher.emulation import Sandbox

Approve = Callable[[], None]


def no_confirmation() -> None:
    """Continue without a question: the changes were approved before, or need no approval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployContext:
    """The context of a deployment: the runner of programs, their environment, the account."""

    runner: Runner
    environment: Mapping[str, str]
    account: str | None
    # The availability zone id of the nodes.
    zone: str | None
    catalog: Catalog
    # Reads what a cluster's scheduler runs; None if nothing answers yet.
    queues: Callable[[str], tuple[QueueState, ...]] | None
    notify: Notify
    # A spending limit below the plan's.
    max_usd: Decimal | None = None
    # Called after all changes were shown; raises if the user declines.
    approve: Approve = no_confirmation
    # The folder in which only one deployment runs at a time; None if no other command deploys to the account.
    root: Path | None = None
    # Returns third-party files that stacks name only by digest, by their names in an assembly; None for a dry run.
    pinned: Callable[[], Mapping[str, bytes]] | None = None
    # Raises if the API of a cluster, given the outputs of its stack, does not answer this computer; None if no job
    # is submitted from here.
    reach: Callable[[Mapping[str, str]], None] | None = None

    @property
    def instances(self) -> Mapping[str, InstanceType]:
        """The catalog's instance types."""
        return self.catalog.instance_types


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployOptions:
    """Where and how to deploy.

    Attributes:
        root: folder of `.slipway`.
        notify: receives progress lines.
        sandbox: deploy to the sandbox, not to AWS.
        dry_run: synthesise, report the changes, and change nothing.
        environment: of processes and AWS calls.
        emulator: a running sandbox, which keeps running; None: `sandbox` starts one for this deployment.
        scheduler: of the sandbox's clusters: "slurm", "local", or "auto" for Slurm if it is installed.
        account: the AWS account to bootstrap for the CDK; None: the doctor checks the account instead.
        queues: reads the queues of a cluster from its scheduler; None: not read.
        approve: called after all changes were shown; raises if the user declines.
    """

    root: Path
    notify: Notify
    sandbox: bool = False
    dry_run: bool = False
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    emulator: "Sandbox | None" = None
    # No job is submitted, so that a cluster needs no Slurm.
    scheduler: str = "local"
    account: str | None = None
    queues: Callable[[str], tuple[QueueState, ...]] | None = None
    approve: Approve = no_confirmation

    def running_sandbox(self, region: str) -> "Sandbox | None":
        """The given sandbox, or the one that runs; None if the deployment starts its own."""
        return self.emulator or find_sandbox(self.environment, region)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployed:
    """A deployed cluster or endpoint: the outputs of every stack, and what was read back."""

    outputs: Mapping[str, Mapping[str, str]]
    verification: StackVerification

    @property
    def training(self) -> Mapping[str, str]:
        """The outputs of the cluster's own stack."""
        return next(output for output in self.outputs.values() if "ClusterName" in output)

    @property
    def cluster_name(self) -> str:
        """The cluster's name."""
        return self.training["ClusterName"]
