"""The `down` command: it removes the stacks of a cluster or endpoint, and retains checkpoints by default."""

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from launcher import plan_file
from launcher.aws import bucket_contents, endpoints, instances, stacks
from launcher.aws.endpoint_parts import describe_config
from launcher.aws.left_in_vpc import left_in_vpc
from launcher.aws.session import Session
from launcher.aws.stacks import StackEvent, StackState
from launcher.catalog.load import Catalog
from launcher.model.emulator import MARK
from launcher.model.enums import TargetKind
from launcher.model.errors import (
    AwsError,
    DeploymentFailedError,
    ImpossibleError,
    SlipwayError,
    UnreadableInputError,
)
from launcher.model.names import nearest_name
from launcher.model.removal import Removal, Retained
from launcher.model.request import PlanRequest
from launcher.model.stages import Notify, Stage, StagePart, stage
from launcher.model.units import number_of
from launcher.records import run_folder
from launcher.records.report_document import report_document, stored_report
from launcher.rendering.names import NETWORK_STACK, SERVING_STACK, STORE_STACK, TRAINING_STACK
from launcher.targets.clusters import cluster_at
from launcher.targets.registry import TARGETS
from launcher.workflow.cluster.run_environment import region_in_sandbox
from launcher.workflow.deploy.failed_creation import with_left_resources
from launcher.workflow.deploy.running_jobs import running_jobs
from launcher.workflow.doctor import leftovers

SHARED_VPC = re.compile(r"slipway-.+-shared-network:VpcId")
"""The export that every cluster in a shared network imports (infra/stacks/network.py)."""
VPC, DEPENDS = "AWS::EC2::VPC", "depend"
"""A word of EC2's refusals: `has dependencies and cannot be deleted`, `has a dependent object`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalTarget:
    """The cluster to remove: its name, its region, and its shared network if the name is known."""

    cluster: str
    region: str
    network: str | None

    @property
    def parallelcluster(self) -> str:
        """ParallelCluster's name of the cluster, which is also the name of ParallelCluster's own stack."""
        return f"slipway-{self.cluster}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingResources:
    """The existing resources of a cluster, before removal."""

    subject: RemovalTarget
    # The stacks to remove, in order.
    going: tuple[StackState, ...]
    # Those of the checkpoint stack; `erase` deletes them too.
    buckets: tuple[str, ...]
    erase: bool
    # Resources that others use or that the plan only named.
    kept: tuple[Retained, ...]
    # The provider's log group.
    provider_log: str | None
    removal: Removal
    # The cluster is, or may have been, a Kubernetes cluster, whose objects can have created resources outside any
    # stack.
    pods: bool = False


def subject(text: str, region: str | None, root: Path, environment: Mapping[str, str]) -> RemovalTarget:
    """The cluster that a name or a plan file means.

    Raises:
        UnreadableInputError: the file cannot be read, or the region is unknown.
        ImpossibleError: the plan's jobs run on an existing cluster.
    """
    request = plan_file.load(Path(text)) if plan_file.is_path(text) else None
    if request is not None and request.target.cluster is not None:
        other = request.target.cluster
        message = f"{text} has no cluster: its jobs run on {other}, which other plans may use too"
        raise ImpossibleError(message, hint=f"slipway down {other} removes it for all of them")
    cluster = request.name if request is not None else text
    known = [plan_request for plan_request in (request, _last_deployed(cluster, root)) if plan_request is not None]
    regions = [
        plan_request.target.region[0]
        for plan_request in known
        if plan_request.target.region and len(plan_request.target.region) == 1
    ]
    wanted_region = region or next(iter(regions), None)
    # In a sandbox all regions are one server: the cluster's stacks name its region.
    if wanted_region is None and MARK in environment:
        wanted_region = region_in_sandbox(cluster, environment)
    wanted_region = wanted_region or environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")
    if wanted_region is None:
        raise UnreadableInputError(f"the region of {cluster} is unknown", hint="add --region")
    network = next((plan_request.network.name for plan_request in known if plan_request.network.name), None)
    return RemovalTarget(cluster=cluster, region=wanted_region, network=network)


def _last_deployed(cluster: str, root: Path) -> PlanRequest | None:
    try:
        return plan_file.load(run_folder.latest(cluster, root).path / "plan.json")
    except SlipwayError:
        return None


def survey(target: RemovalTarget, session: Session, catalog: Catalog, *, erase: bool) -> ExistingResources:
    """Read the existing resources, and decide which to remove and which to keep.

    `erase`: whether to delete the checkpoints too.

    Raises:
        ImpossibleError: no resource of that name exists, or a stack has termination protection that Slipway did not
        set.
    """
    name = target.parallelcluster
    training = with_left_resources(session, stacks.find(session, f"{name}-{TRAINING_STACK}"))
    serving = stacks.find(session, f"{name}-{SERVING_STACK}")
    network = stacks.find(session, f"{name}-{NETWORK_STACK}")
    store = stacks.find(session, f"{name}-{STORE_STACK}")
    shared, users = _shared_network(target, session)
    # A stack is removed before those whose exports it imports.
    going = [stack for stack in (serving, training, network, None if users else shared) if stack is not None]
    if not going and store is None:
        raise _nothing_there(target, session)
    _refuse_protected(going, target.region)
    retained = [*leftovers.foreign(training, network=not (network or shared), store=store is None)]
    retained += leftovers.requests(session, catalog, target.region, serving)
    if shared is not None and users:
        retained.append(leftovers.used_network(session, catalog, target.region, shared, users))
    # Last: what is removed before may still write its log or a checkpoint.
    going += [store] if store is not None and erase else []
    kind = kind_of(training)
    counts = cluster_at(kind).instance_counts(session, training.outputs) if training and kind else {}
    result = ExistingResources(
        subject=target,
        going=tuple(going),
        buckets=leftovers.bucket_names(session, store) if store is not None else (),
        erase=erase,
        kept=tuple(retained),
        provider_log=leftovers.provider_log(session, training),
        # Of one whose own stack is gone already, nothing says what it was.
        pods=network is not None if training is None else kind is not None and TARGETS[kind].pods,
        removal=Removal(
            cluster=target.cluster,
            region=target.region,
            done=False,
            stacks=tuple((stack.name, stack.status) for stack in going),
            instances=(
                *sorted(instances.running(session, name).items()),
                *sorted(counts.items()),
                *_serving_instances(session, serving),
            ),
            kept=(),
            endpoint=serving is not None,
            jobs=running_jobs(session, training, datetime.now(UTC)),
            saves=kind is not None and TARGETS[kind].per_job,
        ),
    )
    leftover = _left_behind(result, session, catalog) if training is None else ()
    return replace(
        result, removal=replace(result.removal, kept=(*_retained_resources(result, session, catalog), *leftover))
    )


def kind_of(stack: StackState | None) -> TargetKind | None:
    """The target of a cluster's own stack, by its outputs; None if CloudFormation alone can remove the stack."""
    outputs = set() if stack is None else set(stack.outputs)
    known = [kind for kind, target in TARGETS.items() if target.own_outputs and outputs.issuperset(target.own_outputs)]
    # One target can have all outputs of another and more: the most specific one is meant.
    return max(known, key=lambda kind: len(TARGETS[kind].own_outputs), default=None)


def _left_behind(surveyed: ExistingResources, session: Session, catalog: Catalog) -> tuple[Retained, ...]:
    """Resources that exist although the cluster's own stack is gone."""
    name, region = surveyed.subject.parallelcluster, surveyed.subject.region
    logs = leftovers.control_plane_log(session, catalog, region, name) if surveyed.pods else ()
    return (*leftovers.stranded_cluster(session, region, name), *logs)


def _serving_instances(session: Session, serving: StackState | None) -> tuple[tuple[str, int], ...]:
    if serving is None or "EndpointName" not in serving.outputs:
        return ()
    endpoint = endpoints.find(session, serving.outputs["EndpointName"])
    if endpoint is None or not endpoint.instances:
        return ()
    config = describe_config(session, serving.outputs["EndpointConfigName"])
    return ((str(config["ProductionVariants"][0]["InstanceType"]), endpoint.instances),)


def take_down(
    surveyed: ExistingResources,
    session: Session,
    catalog: Catalog,
    notify: Notify,
    pause: Callable[[float], None] | None = None,
) -> Removal:
    """Remove what a survey lists, in its order; return the result.

    Raises:
        DeploymentFailedError: a stack could not be removed; the same command continues from there.
        KeyboardInterrupt: the user stopped waiting; CloudFormation continues with the stack that it is removing.
    """
    for stack in surveyed.going:
        if stack.name.endswith(f"-{STORE_STACK}"):
            _erase(surveyed, stack, session, notify)
        kind = kind_of(stack)
        if kind is not None:
            cluster_at(kind).empty(session, stack.outputs, notify, pause or stacks.wait)
        try:
            with stage(notify, f"removing {stack.name}") as removal:
                stacks.remove(session, stack, _removal_progress(notify, removal), pause or stacks.wait)
        except DeploymentFailedError as failure:
            raise _with_blockers(failure, surveyed, session) from failure
        except KeyboardInterrupt:
            notify(f"CloudFormation continues with {stack.name}; run the same command to follow it")
            raise
    retained = (*_retained_resources(surveyed, session, catalog), *_left_behind(surveyed, session, catalog))
    removed_stacks = tuple((removed.name, stacks.REMOVED) for removed in surveyed.going)
    return replace(surveyed.removal, done=True, stacks=removed_stacks, kept=retained)


def _with_blockers(
    failure: DeploymentFailedError, surveyed: ExistingResources, session: Session
) -> DeploymentFailedError:
    """The failure, with the resources of others in the cluster's own network, which keep it from being deleted."""
    if DEPENDS not in failure.message:
        return failure
    own = [
        resource
        for stack in surveyed.going
        if stacks.find(session, stack.id) is not None
        for resource in stacks.resources(session, stack.id)
        if resource.status != stacks.REMOVED
    ]
    vpc_id = next((resource.physical_id for resource in own if resource.type == VPC), None)
    try:
        left = () if vpc_id is None else left_in_vpc(session, vpc_id, {resource.physical_id for resource in own})
    except AwsError as problem:
        left = (f"the network's other resources could not be read: {problem.message}",)
    if not left:
        return failure
    text = "\n  ".join((f"{vpc_id} has resources that no stack of Slipway created; delete them, top down:", *left))
    return DeploymentFailedError(f"{failure.message}\n{text}", hint=failure.hint)


def record_removal(removal: Removal, root: Path, environment: Mapping[str, str], notify: Notify) -> None:
    """Record the removal of the stacks in the reports of a cluster's runs under `root`; report unreadable records."""
    # A cluster in the sandbox and one on AWS can have the same name.
    removed_states, simulated = dict(removal.stacks), MARK in environment
    for name, folder in run_folder.all_runs(root):
        if name != removal.cluster or not (folder.path / "report.json").is_file():
            continue
        try:
            report = stored_report(folder)
            regions = plan_file.load(folder.path / "plan.json").target.region or ()
        except SlipwayError as problem:
            notify(problem.message)
            continue
        if report.simulated == simulated and removal.region in regions:
            states = tuple((stack_name, removed_states.get(stack_name, state)) for stack_name, state in report.stacks)
            folder.write_json("report.json", report_document(replace(report, stacks=states)))


def _erase(surveyed: ExistingResources, store: StackState, session: Session, notify: Notify) -> None:
    """Delete the buckets before their stack, because only the stack's resource list names them."""
    for bucket in surveyed.buckets:
        with stage(notify, f"deleting bucket {bucket}") as erasure:
            bucket_contents.delete(session, bucket, lambda count: erasure.now(f"{number_of(count, 'object')} gone"))
    if store.protected:
        stacks.unprotect(session, store)


def _retained_resources(surveyed: ExistingResources, session: Session, catalog: Catalog) -> tuple[Retained, ...]:
    target = surveyed.subject
    names = () if surveyed.erase else surveyed.buckets
    volumes = (
        leftovers.created_in_kubernetes(session, catalog, target.region, target.parallelcluster)
        if surveyed.pods
        else ()
    )
    return (
        *leftovers.retained_store(session, catalog, target.region, names, target.cluster),
        *surveyed.kept,
        *volumes,
        *leftovers.retained_logs(session, catalog, target.region, target.parallelcluster, surveyed.provider_log),
    )


def _shared_network(target: RemovalTarget, session: Session) -> tuple[StackState | None, frozenset[str]]:
    """The stack of the cluster's shared network, and the other clusters in it; None if it shares none.

    The cluster's own imports name the network; without the training stack, only the plan names it.
    """
    training = f"{target.parallelcluster}-{TRAINING_STACK}"
    by_plan = f"slipway-{target.network}-shared-{NETWORK_STACK}:VpcId" if target.network is not None else None
    for export, stack in stacks.exports(session).items():
        if SHARED_VPC.fullmatch(export) is None:
            continue
        users = stacks.importers(session, export)
        if training in users or export == by_plan:
            return stacks.find(session, stack), users - {training}
    return None, frozenset()


def _refuse_protected(going: list[StackState], region: str) -> None:
    """Slipway protects only the checkpoint stack; a user protected any other stack on purpose."""
    for stack in going:
        if stack.protected:
            command = f"aws cloudformation update-termination-protection --region {region} --stack-name {stack.name}"
            message = f"stack {stack.name} has termination protection that Slipway did not set"
            raise ImpossibleError(message, hint=f"{command} --no-enable-termination-protection")


def _nothing_there(target: RemovalTarget, session: Session) -> ImpossibleError:
    suffixes = (f"-{TRAINING_STACK}", f"-{SERVING_STACK}")
    clusters = [
        name.removeprefix("slipway-").removesuffix(suffix)
        for name in stacks.names(session)
        for suffix in suffixes
        if name.startswith("slipway-") and name.endswith(suffix)
    ]
    hint = nearest_name(target.cluster, clusters) or f"found: {', '.join(sorted(clusters)) or 'nothing'}"
    message = f"{target.region} has no resources of a cluster or an endpoint {target.cluster}"
    return ImpossibleError(message, hint=f"{hint}; slipway cost lists every region, --region names one")


def _removal_progress(notify: Notify, removal: Stage) -> Callable[[StackEvent], None]:
    """Show resources during removal, and report those that are gone or cannot be removed."""
    parts: dict[str, StagePart] = {}

    def progress(event: StackEvent) -> None:
        line = f"  {event.status:<16} {event.type:<38} {event.logical_id}"
        if event.status.endswith("_IN_PROGRESS"):
            part = StagePart(description=f"{event.logical_id}  {event.type}", begun=time.monotonic())
            parts.setdefault(event.logical_id, part)
        else:
            parts.pop(event.logical_id, None)
        if event.status == stacks.REMOVED:
            removal.detail(line)
        elif event.status in (stacks.NOT_REMOVED, "DELETE_SKIPPED"):
            notify(line)
        removal.now(parts=tuple(parts.values()))

    return progress
