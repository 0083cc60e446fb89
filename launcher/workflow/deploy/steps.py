"""What a deployment runs with, the files of its run folder, and what it creates."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

from launcher.agent import safe_json
from launcher.catalog.load import Catalog, load
from launcher.cdk.commands import Assembly
from launcher.cdk.runner import Runner
from launcher.emulation import find_sandbox
from launcher.model.bundle import Bundle
from launcher.model.document import document
from launcher.model.enums import CheckpointMode, Egress
from launcher.model.errors import ImpossibleError
from launcher.model.instance_type import InstanceType
from launcher.model.plan import Plan
from launcher.model.quote import Quote
from launcher.model.request import PlanRequest
from launcher.model.stages import Notify
from launcher.planning.nat import egress, interface_endpoints
from launcher.records.quote_document import quote_document
from launcher.records.run_folder import RunFolder
from launcher.rendering.efa_rules import stack_findings
from launcher.targets.clusters import cluster_of
from launcher.targets.registry import target_of
from launcher.workflow.cluster.readback.reading import QueueState, StackVerification
from launcher.workflow.deploy.render import UNSUBMITTED, render_any, show_bundle

if TYPE_CHECKING:
    from launcher.emulation import Sandbox

Approve = Callable[[], None]
WITH_MACHINES = "NotifyTopicArn"
"""An output that a Kubernetes stack does not have before its nodes (launcher/cdk/control_part.py)."""


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
        cluster: reads the queues from a cluster's scheduler; None: not read.
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


def record(
    folder: RunFolder,
    quoted: Quote,
    rank: int,
    catalog: Catalog,
    base: Path,
    *,
    run: str = UNSUBMITTED,
    figures: Callable[[RunFolder], Mapping[str, float]] | None = None,
) -> Bundle:
    """Write the decision into the run folder: the plan, its quote and the files.

    Returns the files to deploy and submit, with blanks for values that are not known yet. `figures` computes the
    figures of the quote that the agent gets (launcher/agent/forecast.py); None: none.
    """
    plan = document(quoted.plan.request)
    plan["run"]["workdir"] = str((base / quoted.plan.request.run.workdir).resolve())
    folder.write_json("plan.json", plan)
    folder.write_json("quote.json", quote_document(quoted, rank, catalog.instance_types))
    bundle = render_any(quoted, catalog, run=run, quoted=figures(folder) if figures is not None else None)
    folder.write_bundle(show_bundle(bundle, quoted.plan))
    return bundle


def refuse_without_efa(plan: Plan, assembly: Assembly, instances: Mapping[str, InstanceType]) -> None:
    """Refuse stacks whose nodes would not get the EFA interfaces of their type, if the target attaches them.

    Raises:
        ImpossibleError: interfaces are missing; the error lists every reason.
    """
    if plan.place.nodes == 1 and not target_of(plan.place.target).efa_on_one_node:
        return
    templates = (safe_json.load(path) for path in assembly.templates.values())
    facts = instances[plan.place.instance_type]
    lost = [finding for template in templates for finding in stack_findings(template, facts)]
    if lost:
        raise ImpossibleError(f"{plan.name}: its nodes would have no EFA", findings=lost)


def _subnet(plan: Plan, chosen: Egress | None) -> str:
    if chosen is Egress.PUBLIC_ADDRESSES:
        return "a public subnet, no inbound rules"
    if chosen is not Egress.ENDPOINTS:
        return f"a private subnet, {chosen or Egress.NAT_GATEWAY}"
    services = interface_endpoints(plan.request, target_of(plan.place.target), chosen)
    return f"a private subnet, {', '.join(services)} endpoints" if services else "a private subnet"


def _checkpoint_place(request: PlanRequest) -> str:
    policy = request.checkpoint
    if policy.mode is CheckpointMode.NONE and request.workload.train is not None:
        return "none are stored (checkpoint.mode is none)"
    if policy.mode is CheckpointMode.OWN:
        return f"stored by the trainer itself{f' in {policy.own_uri}' if policy.own_uri else ''}"
    return policy.store_uri or f"the cluster's bucket, which slipway down {request.name} keeps"


def plan_lines(plan: Plan) -> list[str]:
    """What a deployment creates, from the plan."""
    place, request = plan.place, plan.request
    where = place.az_id or place.region
    instances = f"{place.nodes} x {place.instance_type}, {place.option.value.replace('-', ' ')}, in {where}"
    head = target_of(place.target).head_instance(place.nodes, request.storage.head_node)
    lines = [cluster_of(plan).describe(plan, head, instances)]
    egress_mode = egress(request, place, load().instance_types)
    if request.network.vpc_id is not None:
        lines.append(f"network {request.network.vpc_id}, unchanged")
    elif egress_mode is None and target_of(place.target).in_service_network:
        lines.append("network: the service's own")
    else:
        lines.append(f"network {request.network.cidr}: {_subnet(plan, egress_mode)}, S3 endpoint")
    lines.append(f"checkpoints: {_checkpoint_place(request)}")
    return lines
