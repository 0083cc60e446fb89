"""The steps of a deployment: files, one synthesis, its difference, deployment of that assembly, and its outputs."""

import os
import re
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Self

from launcher.agent import safe_json
from launcher.aws import eks, log_groups, stacks
from launcher.aws.session import Session
from launcher.catalog.load import Catalog, load
from launcher.cdk.commands import Assembly, Cdk, deploy
from launcher.cdk.control_part import control_part
from launcher.cdk.runner import Runner
from launcher.emulation import Emulator
from launcher.model.bundle import Bundle
from launcher.model.document import document
from launcher.model.enums import NatMode
from launcher.model.errors import AwsError, ImpossibleError
from launcher.model.instance_type import InstanceType
from launcher.model.plan import Plan
from launcher.model.quote import Quote
from launcher.model.sizing import head_node
from launcher.model.spending import small
from launcher.model.stages import Notify, Part, Stage, stage
from launcher.model.target import target_of
from launcher.model.units import HOUR_S, spoken
from launcher.planning.nat import nat_mode
from launcher.records.quote_document import quote_document
from launcher.records.run_folder import RunFolder
from launcher.rendering.efa_rules import stack_findings
from launcher.rendering.names import stack_name
from launcher.workflow.cluster.readback.reading import ClusterState
from launcher.workflow.cluster.targets import cluster_of
from launcher.workflow.cluster.training_plans import refuse_unless_training_plan_fits
from launcher.workflow.cluster.verify import TRAINING_STACK, Verification, verify
from launcher.workflow.deploy.account_preparation import prepare_account
from launcher.workflow.deploy.render import UNSUBMITTED, render_any, shown
from launcher.workflow.doctor.rates import running_rates

# The leftover log group of an EKS control plane: EKS writes after its cluster is gone, and creates it again.
#
# CloudFormation makes the group of a cluster under a fixed name, and fails where there is one (terraform-aws-eks,
# issues 2763 and 2446: EKS's service-linked role makes it; not seen here on AWS).


GIB = 2**30


def remove_leftover_log(plan: Plan, session: Session, notify: Notify) -> None:
    """Remove the control plane's log group of an earlier cluster of a plan, before a new cluster is deployed.

    The log group of an existing stack or cluster is left alone.

    Raises:
        ImpossibleError: the log group exists, and these credentials may not remove it.
    """
    if not target_of(plan.place.target).pods or plan.request.target.cluster is not None:
        return
    cluster = f"slipway-{plan.cluster_name}"
    name = log_groups.of_control_plane(cluster)
    log_group = next((group for group in log_groups.log_groups(session, name) if group.name == name), None)
    if log_group is None or stacks.find(session, stack_name(plan, "training")) or eks.describe(session, cluster):
        return
    try:
        log_groups.delete(session, name)
    except AwsError as problem:
        fix = f"aws logs delete-log-group --region {plan.place.region} --log-group-name {name}"
        message = (
            f"log group {name} of an earlier cluster blocks the deployment, and Slipway cannot remove it: "
            f"{problem.message}"
        )
        raise ImpossibleError(message, hint=fix) from problem
    size = f"{log_group.stored_bytes / GIB:.3f} GiB"
    notify(f"removed log group {name}, which EKS wrote after an earlier cluster was deleted ({size})")


CELLS = 6
"""The cells of one line of `cdk deploy`: stack, count, time, state, type, path with logical id."""
STACK = "AWS::CloudFormation::Stack"
ENDINGS = ("_COMPLETE", "_FAILED", "_SKIPPED")
_ID = re.compile(r" \((\w+)\)")
_COUNT = re.compile(r"(\d+)/(\d+)")


def rates_by_stack(assembly: Assembly, catalog: Catalog, region: str) -> dict[str, dict[str, Decimal]]:
    """The hourly cost of an assembly's stacks before any job runs, by stack and logical id."""
    return {name: running_rates(safe_json.load(path), catalog, region) for name, path in assembly.templates.items()}


class StackEvents:
    """Shows CloudFormation's progress from the lines of `cdk deploy`, and the cost so far."""

    def __init__(
        self,
        notify: Notify,
        rates: Mapping[str, Mapping[str, Decimal]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start the clock.

        Args:
            notify: receives one line per stack, and shows the work in progress if it can.
            rates: dollars per hour of resources by stack and logical id.
            clock: returns seconds.
        """
        self._notify, self._rates, self._clock = notify, rates, clock
        self._begun = clock()
        self._stack = ""
        self._stage: Stage | None = None
        self._doing: dict[str, Part] = {}
        self._paid: list[tuple[float, Decimal]] = []

    def __enter__(self) -> Self:
        """Show progress until the block ends."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop showing progress, also after an error."""
        if self._stage is not None:
            self._stage.end()

    def elapsed(self) -> float:
        """Seconds since the start."""
        return self._clock() - self._begun

    def line(self, text: str) -> None:
        """Process one line of `cdk deploy`."""
        cells = [cell.strip() for cell in text.split("|")]
        if len(cells) < CELLS:
            return
        stack, count, _, state, kind, path = cells[:CELLS]
        if not state.endswith((*ENDINGS, "_IN_PROGRESS")):
            return
        now, counted = self._clock(), _COUNT.fullmatch(count)
        if stack != self._stack or self._stage is None:
            self._begin(stack, int(counted[2]) if counted else 0)
        # The CDK adds CloudFormation's reason: "Network/Vpc (NetworkVpc1A2B) Resource creation Initiated".
        match = _ID.search(path)
        name = path[: match.start()] if match else path.partition(" ")[0]
        if state.endswith(ENDINGS):
            self._doing.pop(name, None)
            self._over(state, kind, name)
        else:
            self._began(state, kind, name, match[1] if match else name, now)
        if self._stage is not None:
            share = int(counted[1]) / int(counted[2]) if counted and int(counted[2]) else None
            self._stage.now(partial(self._progress_text, count), share=share, parts=tuple(self._doing.values()))

    def _begin(self, stack: str, count: int) -> None:
        if self._stage is not None:
            self._stage.end()
        self._stack, self._doing = stack, {}
        # The stack counts itself.
        self._stage = stage(self._notify, f"stack {stack}" + (f": {count - 1} resources" if count > 1 else ""))

    def _began(self, state: str, kind: str, name: str, logical_id: str, now: float) -> None:
        """Record a resource in progress: hourly costs count from its creation."""
        if kind == STACK and name == self._stack:
            return
        if name not in self._doing:
            self._doing[name] = Part(description=f"{name}  {kind}", begun=now)
            usd = self._rates.get(self._stack, {}).get(logical_id)
            if usd is not None and state.startswith("CREATE"):
                self._paid.append((now, usd))

    def _over(self, state: str, kind: str, name: str) -> None:
        """Report a finished resource; a failed one in any case."""
        line = f"  {state:<16} {kind:<38} {name}"
        if state.endswith("_FAILED") or self._stage is None:
            self._notify(line)
        else:
            self._stage.detail(line)

    def _progress_text(self, count: str) -> str:
        """The stack's progress, and the maximum cost so far: cost counts from the start of each creation."""
        paid = sum((rate * Decimal(repr(self._clock() - begun)) for begun, rate in self._paid), Decimal(0)) / HOUR_S
        rate = sum((price for _, price in self._paid), Decimal(0))
        far = count.replace("/", " of ")
        return far + (f", at most ${small(paid)} so far at ${small(rate)} an hour" if rate else "")


Approve = Callable[[], None]
WITH_MACHINES = "NotifyTopicArn"
"""An output that a Kubernetes stack does not have before its nodes (launcher/cdk/control_part.py)."""


def no_confirmation() -> None:
    """Continue without a question: the changes were approved before, or need no approval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployContext:
    """The context of a deployment: the runner of programs, their environment, the account.

    `cluster` reads what a cluster's scheduler runs; None if nothing answers yet. `zone` is the availability zone id of
    the nodes, `max_usd` a spending limit below the plan's. `approve` is called after all changes were shown, and raises
    if the user declines. `root` is the folder in which only one deployment runs at a time; None if no other command
    deploys to the account. `pinned` returns third-party files that stacks name only by digest, by their names in an
    assembly; None for a dry run. `reach` raises if the API of a cluster, given the outputs of its stack, does not
    answer this computer; None if no job is submitted from here.
    """

    runner: Runner
    environment: Mapping[str, str]
    account: str | None
    zone: str | None
    catalog: Catalog
    cluster: Callable[[str], ClusterState] | None
    notify: Notify
    max_usd: Decimal | None = None
    approve: Approve = no_confirmation
    root: Path | None = None
    pinned: Callable[[], Mapping[str, bytes]] | None = None
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
    emulator: Emulator | None = None
    # No job is submitted, so that a cluster needs no Slurm.
    scheduler: str = "local"
    account: str | None = None
    cluster: Callable[[str], ClusterState] | None = None
    approve: Approve = no_confirmation


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployed:
    """A deployed cluster or endpoint: the outputs of every stack, and what was read back."""

    outputs: Mapping[str, Mapping[str, str]]
    verification: Verification

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
    folder.write_bundle(shown(bundle, quoted.plan))
    return bundle


def synthesise(folder: RunFolder, quoted: Quote, context: DeployContext) -> tuple[Cdk, Assembly]:
    """Synthesise the run folder's plan. A dry run calls nothing; a deployment also packs the files that it names.

    Raises:
        ImpossibleError: synthesis failed, the nodes would have no EFA, or HyperPod's chart cannot be fetched.
    """
    cdk = Cdk(runner=context.runner, environment=context.environment)
    amounts = quoted.amounts(context.max_usd)
    with stage(context.notify, "synthesising the stacks"):
        assembly = cdk.synth(folder.path / "plan.json", quoted.digest, folder.assembly, amounts)
    refuse_without_efa(quoted.plan, assembly, context.instances)
    if context.pinned is None or not assembly.names_chart:
        return cdk, assembly
    return cdk, assembly.completed(context.pinned())


def refuse_without_efa(plan: Plan, assembly: Assembly, instances: Mapping[str, InstanceType]) -> None:
    """Refuse stacks whose nodes would not get the EFA interfaces of their type.

    Raises:
        ImpossibleError: interfaces are missing; the error lists every reason.
    """
    templates = (safe_json.load(path) for path in assembly.templates.values())
    facts = instances[plan.place.instance_type]
    lost = [finding for template in templates for finding in stack_findings(template, facts)]
    if lost:
        raise ImpossibleError(f"{plan.name}: its nodes would have no EFA", findings=lost)


def _subnet(plan: Plan) -> str:
    public = nat_mode(plan.request, plan.place, load().instance_types) is NatMode.NONE
    return "a public subnet without inbound rules" if public else "a private subnet, NAT gateway"


def plan_lines(plan: Plan) -> list[str]:
    """What a deployment creates, from the plan."""
    place, request = plan.place, plan.request
    where = place.az_id or place.region
    instances = f"{place.nodes} x {place.instance_type}, {place.option.value.replace('-', ' ')}, in {where}"
    head = head_node(place.nodes, request.storage.head_node)
    lines = [cluster_of(plan).describe(plan, head, instances)]
    if request.network.vpc_id is None and target_of(place.target).per_job:
        lines.append("network: the service's own")
    elif request.network.vpc_id is None:
        lines.append(f"network {request.network.cidr}: {_subnet(plan)}, S3 endpoint")
    else:
        lines.append(f"network {request.network.vpc_id}, unchanged")
    location = request.checkpoint.store_uri or f"the cluster's bucket, which slipway down {request.name} keeps"
    lines.append(f"checkpoints: {location}")
    return lines


def bring_up(
    folder: RunFolder,
    quoted: Quote,
    bundle: Bundle,
    context: DeployContext,
    *,
    cdk: Cdk,
    assembly: Assembly,
    now: datetime,
    around: AbstractContextManager[None],
) -> Deployed:
    """Deploy the assembly that was shown, write its outputs, and read back the resources.

    `around` surrounds only the deployment: it stops the fleet, if the update needs that.

    Raises:
        DeploymentFailedError: CloudFormation failed, or the resources differ from the plan.
    """
    plan, notify = quoted.plan, context.notify
    session = Session(environment=context.environment, region=plan.place.region)
    refuse_unless_training_plan_fits(plan, session, now)
    remove_leftover_log(plan, session, notify)
    if context.reach is not None:
        stack = stacks.find(session, stack_name(plan, TRAINING_STACK))
        if stack is None or WITH_MACHINES not in stack.outputs:
            context.reach(_control_outputs(folder, quoted, bundle, context, cdk=cdk, assembly=assembly, now=now))
            # The account was prepared for both.
            context = replace(context, account=None)
    training_stack = stack_name(plan, TRAINING_STACK)
    inputs = {f"{training_stack}:{name}": value for name, value in cluster_of(plan).inputs(plan, session).items()}
    with around:
        outputs = carry_out(folder, quoted, bundle, context, cdk=cdk, assembly=assembly, now=now, inputs=inputs)
    with stage(notify):
        checked = verify(
            plan,
            session,
            assembly.stacks,
            cluster=context.cluster,
            zone=context.zone,
            usd_per_hour=quoted.usd_per_hour,
        )
    notify(f"read back and as planned: {len(checked.verified)} facts, stacks: {len(checked.stacks)}")
    return Deployed(outputs=outputs, verification=checked)


def _control_outputs(
    folder: RunFolder,
    quoted: Quote,
    bundle: Bundle,
    context: DeployContext,
    *,
    cdk: Cdk,
    assembly: Assembly,
    now: datetime,
) -> Mapping[str, str]:
    with TemporaryDirectory(prefix="slipway-control-") as place:
        part = control_part(assembly, Path(place) / "cdk.out")
        context.notify("control plane first: nodes start after its API has answered this computer")
        outputs = carry_out(folder, quoted, bundle, context, cdk=cdk, assembly=part, now=now)
    return next(output for output in outputs.values() if "ClusterEndpoint" in output)


def carry_out(
    folder: RunFolder,
    quoted: Quote,
    bundle: Bundle,
    context: DeployContext,
    *,
    cdk: Cdk,
    assembly: Assembly,
    now: datetime,
    inputs: Mapping[str, str] | None = None,
) -> Mapping[str, Mapping[str, str]]:
    """Deploy an assembly with progress; return the outputs of its stacks, which the run folder keeps.

    `inputs` are parameters of its stacks (`deploy`).

    Raises:
        DeploymentFailedError: CloudFormation failed.
    """
    place, notify = quoted.plan.place, context.notify
    if context.account is not None:
        prepare_account(
            cdk,
            assembly,
            Session(environment=context.environment, region=place.region),
            account=context.account,
            qualifier=quoted.plan.request.security.qualifier,
            notify=notify,
        )
    with StackEvents(notify, rates_by_stack(assembly, context.catalog, place.region)) as events:
        outputs = deploy(
            quoted,
            bundle,
            assembly,
            cdk,
            outputs=folder.path / "outputs.json",
            now=now,
            on_line=events.line,
            inputs=inputs,
        )
    notify(f"deployed in {spoken(events.elapsed())}: {', '.join(assembly.stacks)}")
    return outputs
