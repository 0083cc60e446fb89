"""The changes of a deployment in the account: Slipway shows them before the question and rechecks them afterwards."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from launcher.agent import safe_json
from launcher.aws import stacks
from launcher.aws.session import Session
from launcher.aws.stacks import StackState
from launcher.catalog.load import Catalog
from launcher.catalog.updates import load_replacing
from launcher.cdk.commands import Assembly, Cdk
from launcher.cdk.difference import (
    REPLACING,
    Change,
    ResourceChange,
    StackChange,
    broken_exports,
    imports,
    stack_change,
)
from launcher.cdk.runner import SubprocessRunner
from launcher.model.document import document
from launcher.model.enums import TargetKind
from launcher.model.errors import ImpossibleError, SlipwayError
from launcher.model.finding import Finding, error
from launcher.model.plan import Plan
from launcher.model.quote import Quote
from launcher.model.stages import Notify
from launcher.model.tags import PLAN_TAG
from launcher.model.units import number_of
from launcher.model.update import KeyChange, Needs
from launcher.records.deploy_lock import deploying
from launcher.rendering.cluster import owner_in
from launcher.rendering.names import NETWORK_STACK, TRAINING_STACK, stack_name
from launcher.targets.clusters import cluster_of, stacks_of
from launcher.targets.registry import target_of
from launcher.workflow.cluster.readback.training import COMPLETE
from launcher.workflow.deploy.context import DeployContext
from launcher.workflow.doctor.rates import hourly_rate

IN_PROGRESS = "_IN_PROGRESS"
LISTED = 30
"""The maximum number of changed resources in the list; the others are only counted."""
STATEFUL = frozenset(
    (
        "AWS::EC2::Subnet",
        "AWS::EC2::VPC",
        "AWS::EKS::Cluster",
        "AWS::EKS::Nodegroup",
        "AWS::FSx::FileSystem",
        "AWS::S3::Bucket",
        "AWS::SageMaker::Cluster",
        "AWS::SageMaker::Endpoint",
        "Custom::PclusterCluster",
    )
)
"""Types whose replacement ends instances or deletes data."""
OF_ENDPOINTS = ("AWS::SageMaker::Endpoint", "AWS::SageMaker::InferenceComponent", "AWS::SageMaker::Model")
"""The beginnings of the types of an endpoint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssemblyDifference:
    """An assembly compared with the existing stacks.

    `states` are the states of its stacks, `before` and `after` their templates. `unasked` is the reason if AWS was not
    called: then every resource counts as new.
    """

    states: Mapping[str, StackState | None]
    before: Mapping[str, Mapping[str, Any]]
    after: Mapping[str, Mapping[str, Any]]
    stacks: tuple[StackChange, ...]
    unasked: str | None = None

    @property
    def none(self) -> bool:
        """Whether every stack exists, is complete, and has the same resources."""
        whole = all(state is not None and state.status in COMPLETE for state in self.states.values())
        return whole and all(stack.same for stack in self.stacks)

    @property
    def changes(self) -> Iterator[ResourceChange]:
        """Every resource that changes in existing stacks."""
        return (resource for stack in self.stacks if not stack.new for resource in stack.resources)

    @property
    def keys(self) -> Iterator[KeyChange]:
        """Every key that changes in existing clusters."""
        return (key for change in self.changes for key in change.keys)


def change_text(change: KeyChange) -> str:
    """The change of a key, in one line.

    >>> change_text(KeyChange(path="MaxCount", old=2, new=4, needs=Needs.NOTHING, plan_key="target.nodes"))
    'MaxCount: 2 -> 4 (target.nodes)'
    """
    # The plan's key says where it is.
    name = change.path.rpartition(".")[2] if change.plan_key else change.path
    if change.old == change.new:
        text = f"{name}: {change.old} stays"
    elif change.old is None or change.new is None:
        text = f"{name}: {'added' if change.old is None else 'removed'}"
    elif isinstance(change.old, Mapping | list) or isinstance(change.new, Mapping | list):
        text = f"{name}: changed"
    else:
        text = f"{name}: {change.old} -> {change.new}"
    return f"{text} ({change.plan_key})" if change.plan_key else text


def refuse_update(difference: AssemblyDifference, cluster: str) -> None:
    """Continue only if CloudFormation and the cluster's service can carry out all changes.

    Raises:
        ImpossibleError: the deployment would be rolled back, or break the cluster; the error lists every such change.
    """
    _refuse_broken_exports(difference)
    # Groups of one cluster can have the same change: it is listed once.
    refused = list(
        dict.fromkeys(
            _refusal(key, _owner(change))
            for change in difference.changes
            for key in change.keys
            if key.needs is Needs.NEW_CLUSTER
        )
    )
    if refused:
        owner = "endpoint" if any(_owner(change) == "endpoint" for change in difference.changes) else "cluster"
        raise ImpossibleError(
            f"{owner} {cluster} cannot be changed in this way; nothing was deployed",
            hint=f"undo the change, or run slipway down {cluster} and then this command again, or rename the plan",
            findings=refused,
        )


def refuse_busy(difference: AssemblyDifference, plan: Plan, session: Session, catalog: Catalog) -> None:
    """Continue only if the cluster's service accepts the changes at this time.

    Raises:
        ImpossibleError: it refuses them for some time.
    """
    rate = hourly_rate(difference.before.values(), catalog, session.region)
    changed = {change.type for change in difference.changes}
    stacks_of(plan.place.target).refuse_busy(session, f"slipway-{plan.cluster_name}", changed, rate.text)


def _owner(change: ResourceChange) -> str:
    """What a resource belongs to, in words."""
    return "endpoint" if change.type.startswith(OF_ENDPOINTS) else "cluster"


def _refusal(change: KeyChange, owner: str) -> Finding:
    # A value of the plan is one word; others describe the deployed resource.
    word = isinstance(change.old, int) or (isinstance(change.old, str) and " " not in change.old)
    keep = f"{change.plan_key}: {change.old}" if change.plan_key and word else ""
    text = change_text(change).removesuffix(f" ({change.plan_key})")
    message = f"{text}: {change.why or f'an existing {owner} keeps it'}"
    return error("needs-new-cluster", change.plan_key, message, f"{keep} keeps the {owner}" if keep else "")


def _refuse_broken_exports(difference: AssemblyDifference) -> None:
    """Continue only if CloudFormation can carry out the changes."""
    for change in difference.stacks:
        if change.new:
            continue
        broken = broken_exports(difference.before[change.name], difference.after[change.name], change)
        for user, template in difference.before.items():
            used = sorted(set(imports(template)) & broken.keys()) if user != change.name else []
            if used:
                cluster = user.removeprefix("slipway-").rpartition("-")[0]
                raise ImpossibleError(
                    f"stack {user} uses {used[0]} of {change.name}, and {broken[used[0]]}: CloudFormation "
                    "refuses this while it is in use",
                    hint=f"slipway down {cluster} removes it, or revert the change",
                )


def stops_fleet(difference: AssemblyDifference, plan: Plan, session: Session, notify: Notify) -> bool:
    """Whether a compute fleet runs that must stop for an update, after reporting what is lost."""
    needing = [key for key in difference.keys if key.needs is Needs.STOPPED_FLEET]
    if not needing:
        return False
    nodes = cluster_of(plan).running_nodes(session, f"slipway-{plan.cluster_name}")
    if nodes is None:
        return False
    changed = ", ".join(dict.fromkeys(change.plan_key or change.path for change in needing))
    notify(f"  {changed}: the compute fleet is stopped for this and started again afterwards")
    if nodes:
        notify(
            f"  {nodes} running node{'s end' if nodes > 1 else ' ends'}: their jobs return to the queue and lose "
            "the work since their newest checkpoint"
        )
    return True


@contextmanager
def stopped_fleet(plan: Plan, session: Session, notify: Notify) -> Iterator[None]:
    """Run a part of a deployment while the fleet is stopped; start the fleet again after success.

    Raises:
        DeploymentFailedError: the fleet does not stop.
    """
    cluster, name = cluster_of(plan), f"slipway-{plan.cluster_name}"
    cluster.stop_fleet(session, name, notify)
    try:
        yield
    # Whatever failed, the user must know that no node starts.
    except BaseException:
        notify(f"the compute fleet of {name} is stopped: the next launch or deployment starts it")
        raise
    cluster.start_fleet(session, name, notify)


def difference_of(assembly: Assembly, session: Session, kind: TargetKind | None = None) -> AssemblyDifference:
    """Read the stacks of an assembly, and return their changes.

    `kind` is the target's kind, None for an endpoint.

    Raises:
        ImpossibleError: the assembly changed after its synthesis.
        ImpossibleError: another deployment of one of the stacks is in progress.
    """
    assembly.refuse_if_changed()
    states = {name: stacks.find(session, name) for name in assembly.stacks}
    _refuse_in_progress(states)
    existing = [name for name, state in states.items() if state is not None and state.status not in stacks.NOT_MADE]
    return compare_assembly(assembly, states, {name: stacks.template(session, name) for name in existing}, kind=kind)


def all_new(assembly: Assembly, unasked: str) -> AssemblyDifference:
    """The difference if AWS is not called, with the reason."""
    return compare_assembly(assembly, dict.fromkeys(assembly.stacks), {}, unasked)


def compare_assembly(
    assembly: Assembly,
    states: Mapping[str, StackState | None],
    before: Mapping[str, Mapping[str, Any]],
    unasked: str | None = None,
    *,
    kind: TargetKind | None = None,
) -> AssemblyDifference:
    """An assembly compared with the templates of the existing stacks."""
    after = {name: safe_json.load(path) for name, path in assembly.templates.items()}
    replacing, key_changes = load_replacing(), None if kind is None else target_of(kind).key_changes
    changes = tuple(
        stack_change(name, before.get(name), template, replacing, key_changes) for name, template in after.items()
    )
    return AssemblyDifference(states=states, before=before, after=after, stacks=changes, unasked=unasked)


def _refuse_in_progress(states: Mapping[str, StackState | None]) -> None:
    """Refuse if CloudFormation is changing one of the stacks."""
    for name, state in states.items():
        if state is None or not state.status.endswith(IN_PROGRESS) or state.status in stacks.NOT_MADE:
            continue
        facts = [f"since {state.deployed_at:%Y-%m-%d %H:%M} UTC"] if state.deployed_at is not None else []
        facts += [f"plan {state.tags[PLAN_TAG]}"] if PLAN_TAG in state.tags else []
        facts += [f"of {owner}"] if (owner := owner_in(state.tags)) is not None else []
        raise ImpossibleError(
            f"stack {name} is {state.status}{', ' if facts else ''}{', '.join(facts)}: another deployment is in "
            "progress",
            hint="wait until it ends and run this again; nothing was changed",
        )


@contextmanager
def approved_deployment(
    difference: AssemblyDifference, quoted: Quote, context: DeployContext, description: Iterable[str]
) -> Iterator[AbstractContextManager[None]]:
    """Show what a deployment changes and have it approved; the block deploys, locked against other deployments.

    The yielded context is for the deployment itself: it stops the compute fleet, if the update needs that.

    Raises:
        DeclinedError: the user declined.
        ImpossibleError: another deployment of the name is running, or the stacks changed after they were read.
    """
    place, plan = quoted.plan.place, quoted.plan
    with _deployment_lock(context, plan.cluster_name, place.region):
        session = Session(environment=context.environment, region=place.region)
        for line in difference_lines(difference, context, place.region, description, quoted):
            context.notify(line)
        refuse_update(difference, plan.cluster_name)
        refuse_busy(difference, plan, session, context.catalog)
        stops = stops_fleet(difference, plan, session, context.notify)
        context.approve()
        stacks_of(plan.place.target).await_changes(session, f"slipway-{plan.cluster_name}", context.notify)
        # A user may take hours to answer, and others deploy meanwhile.
        states = {name: stacks.find(session, name) for name in difference.states}
        _refuse_in_progress(states)
        moved = [name for name, state in states.items() if state != difference.states[name]]
        if moved:
            raise ImpossibleError(
                f"stack {moved[0]} changed since the difference was shown: nothing is deployed",
                hint="run the command again to see the new difference",
            )
        yield stopped_fleet(plan, session, context.notify) if stops else nullcontext()


@contextmanager
def _deployment_lock(context: DeployContext, cluster: str, region: str) -> Iterator[None]:
    if context.root is None:
        yield
        return
    with deploying(context.root, cluster, region):
        yield


def shown_only(
    assembly: Assembly, session: Session, context: DeployContext, description: Iterable[str], quoted: Quote
) -> None:
    """The same difference for a dry run; if AWS cannot be called, everything is shown as new, with the reason.

    Raises:
        ImpossibleError: the deployment would be refused.
    """
    plan = quoted.plan
    try:
        difference = difference_of(assembly, session, plan.place.target)
    except ImpossibleError:
        raise
    except SlipwayError as problem:
        difference = all_new(assembly, problem.message)
    for line in difference_lines(difference, context, session.region, description, quoted):
        context.notify(line)
    refuse_update(difference, plan.cluster_name)
    refuse_busy(difference, plan, session, context.catalog)
    stops_fleet(difference, plan, session, context.notify)


def update_obstacle(quoted: Quote, *, base: Path, environment: Mapping[str, str]) -> str | None:
    """Why a plan cannot be deployed to the existing stacks; None if it can, or no stack exists.

    Raises:
        SlipwayError: synthesis failed, or AWS cannot be called.
    """
    plan = quoted.plan
    session = Session(environment=environment, region=plan.place.region)
    if not any(stacks.find(session, stack_name(plan, stack)) for stack in (NETWORK_STACK, TRAINING_STACK)):
        return None
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        plan_document = document(plan.request)
        plan_document["run"]["workdir"] = str(base / plan.request.run.workdir)
        (folder / "plan.json").write_text(json.dumps(plan_document), encoding="utf-8")
        cdk = Cdk(runner=SubprocessRunner(), environment=environment)
        assembly = cdk.synth(folder / "plan.json", quoted.digest, folder / "cdk.out", quoted.amounts(None))
        try:
            refuse_update(difference_of(assembly, session, plan.place.target), plan.cluster_name)
        except ImpossibleError as refusal:
            return refusal.findings[0].message if refusal.findings else refusal.message
    return None


def difference_lines(
    difference: AssemblyDifference, context: DeployContext, region: str, description: Iterable[str], quoted: Quote
) -> Iterator[str]:
    """The difference in the plan's words, then for each stack, then in dollars per hour: of new stacks the quote's."""
    first, *more = description
    yield f"changes: {first}"
    yield from (f"  {line}" for line in more)
    if difference.unasked is not None:
        yield f"  Slipway cannot read what exists in AWS ({difference.unasked}): all resources are listed as new"
    # Nothing exists: a list of every resource as new would say nothing.
    if not difference.before:
        count = sum(len(change.resources) for change in difference.stacks)
        stacks_words = number_of(len(difference.stacks), "new stack")
        after, usd = hourly_rate(difference.after.values(), context.catalog, region), quoted.running_usd_per_hour
        # The quote's rate counts all nodes; it stands for the templates' if these leave nothing open.
        whole = usd is not None and after.usd and after.scaled is None and not after.unknown
        rate = f"${usd:,.2f} an hour while all nodes run" if whole else after.sentence
        yield f"  {number_of(count, 'resource')} in {stacks_words}; {rate}"
        return
    for stack in difference.stacks:
        yield f"  {stack.name}: {_change_counts(stack)}"
        if not stack.new:
            yield from (f"    {line}" for line in _change_lines(stack.resources))
    before = hourly_rate(difference.before.values(), context.catalog, region)
    after = hourly_rate(difference.after.values(), context.catalog, region)
    same = before == after
    yield f"  {after.sentence}" + (", as before" if same else f"; before: {before.text}")
    replaced = [change for change in difference.changes if change.change in REPLACING and change.type in STATEFUL]
    if replaced or not same:
        parts = [f"{change.change}: {change.logical_id} ({change.type})" for change in replaced]
        parts += [] if same else [f"${before.usd:,.2f} an hour becomes ${after.usd:,.2f}"]
        yield f"  this changes existing resources: {'; '.join(parts)}"


def _change_counts(stack: StackChange) -> str:
    counted = [f"{stack.count(change)} {change}" for change in Change if stack.count(change)]
    if counted:
        return ", ".join(counted)
    return "no change" if stack.same else "its outputs only"


def _with_effect(key: KeyChange) -> str:
    """The change of a key, with what an update that is possible does to running nodes."""
    effect = f": {key.why}" if key.why and key.needs is Needs.NOTHING else ""
    return f"{change_text(key)}{effect}"


def _change_lines(changes: Sequence[ResourceChange]) -> Iterator[str]:
    # What costs data or nodes comes first: the list may be cut.
    order = [Change.REPLACED, Change.MAYBE_REPLACED, Change.REMOVED, Change.RETAINED, Change.CHANGED, Change.NEW]
    ranked = sorted(changes, key=lambda change: (order.index(change.change), change.type, change.logical_id))
    for change in ranked[:LISTED]:
        because = f": {', '.join(change.because)}" if change.because else ""
        yield f"{change.change:<15} {change.type}  {change.logical_id}{because}"
        for key in change.keys:
            needs = f"new {_owner(change)}" if key.needs is Needs.NEW_CLUSTER else key.needs
            yield f"  {needs:<14} {_with_effect(key)}"
    if len(ranked) > LISTED:
        yield f"and {len(ranked) - LISTED} more"
