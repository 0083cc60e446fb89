"""The approval of a deployment's changes: shown, refused if they are impossible, and rechecked after the question."""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory

from launcher.aws import stacks
from launcher.aws.session import Session
from launcher.catalog.load import Catalog
from launcher.cdk.commands import Assembly, Cdk
from launcher.cdk.difference import (
    broken_exports,
    imports,
)
from launcher.cdk.runner import SubprocessRunner
from launcher.model.document import document
from launcher.model.errors import ImpossibleError, SlipwayError
from launcher.model.finding import Finding, error
from launcher.model.plan import Plan
from launcher.model.quote import Quote
from launcher.model.stages import Notify
from launcher.model.update import KeyChange, Needs
from launcher.records.deploy_lock import deploying
from launcher.rendering.names import NETWORK_STACK, TRAINING_STACK, stack_name
from launcher.targets.clusters import cluster_of, stacks_of
from launcher.workflow.deploy.assembly_difference import AssemblyDifference, all_new, difference_of, refuse_in_progress
from launcher.workflow.deploy.context import DeployContext
from launcher.workflow.deploy.difference_text import change_text, difference_lines, owner_text
from launcher.workflow.doctor.rates import hourly_rate


def refuse_update(difference: AssemblyDifference, cluster: str) -> None:
    """Continue only if CloudFormation and the cluster's service can carry out all changes.

    Raises:
        ImpossibleError: the deployment would be rolled back, or break the cluster; the error lists every such change.
    """
    _refuse_broken_exports(difference)
    # Groups of one cluster can have the same change: it is listed once.
    refused = list(
        dict.fromkeys(
            _refusal(key, owner_text(change))
            for change in difference.changes
            for key in change.keys
            if key.needs is Needs.NEW_CLUSTER
        )
    )
    if refused:
        owner = "endpoint" if any(owner_text(change) == "endpoint" for change in difference.changes) else "cluster"
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
        refuse_in_progress(states)
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
