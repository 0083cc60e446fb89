"""What a deployment would change in the account, shown before the question, and held still until it is answered."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from launcher.agent import safe_json
from launcher.aws import stacks
from launcher.aws.session import Session
from launcher.aws.stacks import StackState
from launcher.catalog.replacement import load_replacing
from launcher.cdk.commands import Assembly, Cdk
from launcher.cdk.difference import (
    REPLACING,
    Change,
    ResourceChange,
    StackChange,
    stack_change,
)
from launcher.cdk.runner import SubprocessRunner
from launcher.model.document import document
from launcher.model.errors import ImpossibleError, SlipwayError
from launcher.model.plan import Plan
from launcher.model.quote import Quote
from launcher.model.update import Updates
from launcher.records.deploy_lock import deploying
from launcher.rendering.cluster import owner_in
from launcher.rendering.names import stack_name
from launcher.targets.load import part
from launcher.workflow.cluster.verify import NETWORK_STACK, TRAINING_STACK
from launcher.workflow.deploy.rates import hourly_rate
from launcher.workflow.deploy.steps import DeployContext
from launcher.workflow.deploy.update import Difference, change_words, fleet_to_stop, refuse_update, stopped

IN_PROGRESS = "_IN_PROGRESS"
NOT_MADE = ("REVIEW_IN_PROGRESS", "ROLLBACK_COMPLETE", "ROLLBACK_FAILED")
"""States of a stack that holds nothing: the CDK makes it anew."""
LISTED = 30
"""Changed resources that are listed one by one; of more, the rest is counted."""
MOMENTOUS = frozenset(
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
"""Types whose replacement ends machines or what they hold."""


def difference_of(assembly: Assembly, session: Session, kind: str | None = None) -> Difference:
    """Look at the stacks of an assembly and what would change in them.

    Args:
        assembly: what would be deployed.
        session: AWS.
        kind: the target whose rules of updates hold; None for an endpoint.

    Raises:
        QuoteMismatchError: the assembly is not what was synthesised.
        ImpossibleError: another deployment is at one of them.
        AwsError: a call failed.
    """
    assembly.refuse_if_changed()
    states = {name: stacks.find(session, name) for name in assembly.stacks}
    _refuse_in_progress(states)
    made = [name for name, state in states.items() if state is not None and state.status not in NOT_MADE]
    return compared(assembly, states, {name: stacks.template(session, name) for name in made}, kind=kind)


def all_new(assembly: Assembly, unasked: str) -> Difference:
    """The difference where AWS is not asked what exists, with the reason."""
    return compared(assembly, dict.fromkeys(assembly.stacks), {}, unasked)


def compared(
    assembly: Assembly,
    states: Mapping[str, StackState | None],
    before: Mapping[str, Mapping[str, Any]],
    unasked: str | None = None,
    *,
    kind: str | None = None,
) -> Difference:
    """An assembly held against the templates of the stacks that are there."""
    after = {name: safe_json.load(path) for name, path in assembly.templates.items()}
    replacing, judges = load_replacing(), {} if kind is None else part(kind, "updates", Updates).judge
    found = tuple(stack_change(name, before.get(name), template, replacing, judges) for name, template in after.items())
    return Difference(states=states, before=before, after=after, stacks=found, unasked=unasked)


def _refuse_in_progress(states: Mapping[str, StackState | None]) -> None:
    """Go on only where CloudFormation is at none of some stacks."""
    for name, state in states.items():
        if state is None or not state.status.endswith(IN_PROGRESS) or state.status in NOT_MADE:
            continue
        facts = [f"since {state.deployed_at:%Y-%m-%d %H:%M} UTC"] if state.deployed_at is not None else []
        facts += [f"plan {state.tags['slipway:plan']}"] if "slipway:plan" in state.tags else []
        facts += [f"of {owner}"] if (owner := owner_in(state.tags)) is not None else []
        raise ImpossibleError(
            f"stack {name} is {state.status}{', ' if facts else ''}{', '.join(facts)}: another deployment is at it",
            hint="wait until it is over and run this again; nothing was changed",
        )


@contextmanager
def agreed(
    found: Difference, quoted: Quote, context: DeployContext, words: Iterable[str]
) -> Iterator[AbstractContextManager[None]]:
    """Show what a deployment changes and have it approved; the block deploys, and no other deployment comes between.

    What is yielded is for the deployment itself: within it the compute fleet is stopped, where the update needs that.

    Raises:
        DeclinedError: somebody said no.
        ImpossibleError: another deployment of the name goes on, or the stacks were changed since they were looked at.
        AwsError: a call failed.
    """
    place, plan = quoted.plan.place, quoted.plan
    with _held(context, plan.cluster_name, place.region):
        session = Session(environment=context.environment, region=place.region)
        for line in difference_lines(found, context, place.region, words):
            context.tell(line)
        refuse_update(found, plan.cluster_name)
        fleet = fleet_to_stop(found, plan, session, context.tell)
        context.approve()
        states = {name: stacks.find(session, name) for name in found.states}
        _refuse_in_progress(states)
        moved = [name for name, state in states.items() if state != found.states[name]]
        if moved:
            raise ImpossibleError(
                f"stack {moved[0]} changed since the difference was shown: nothing is deployed",
                hint="run the command again to see the new difference",
            )
        yield stopped(fleet, context.tell)


@contextmanager
def _held(context: DeployContext, cluster: str, region: str) -> Iterator[None]:
    """The name of a deployment, where others could deploy the same."""
    if context.root is None:
        yield
        return
    with deploying(context.root, cluster, region):
        yield


def shown_only(assembly: Assembly, session: Session, context: DeployContext, words: Iterable[str], plan: Plan) -> None:
    """The same difference for a dry run; where AWS cannot be asked, that is said and everything is new.

    Raises:
        ImpossibleError: the deployment would be refused.
    """
    try:
        found = difference_of(assembly, session, plan.place.target)
    except ImpossibleError:
        raise
    except SlipwayError as problem:
        found = all_new(assembly, problem.message)
    for line in difference_lines(found, context, session.region, words):
        context.tell(line)
    refuse_update(found, plan.cluster_name)
    fleet_to_stop(found, plan, session, context.tell)


def update_obstacle(quoted: Quote, *, base: Path, environment: Mapping[str, str]) -> str | None:
    """Why a plan cannot be deployed to the stacks that are there; None where it can, or none is there.

    Args:
        quoted: the plan with its quote.
        base: the folder that paths of its file are relative to.
        environment: the credentials.

    Raises:
        SlipwayError: it cannot be synthesised, or AWS cannot be asked.
    """
    plan = quoted.plan
    session = Session(environment=environment, region=plan.place.region)
    if not any(stacks.find(session, stack_name(plan, each)) for each in (NETWORK_STACK, TRAINING_STACK)):
        return None
    with TemporaryDirectory() as kept:
        folder = Path(kept)
        wanted = document(plan.request)
        wanted["run"]["workdir"] = str(base / plan.request.run.workdir)
        (folder / "plan.json").write_text(json.dumps(wanted), encoding="utf-8")
        cdk = Cdk(runner=SubprocessRunner(), environment=environment)
        assembly = cdk.synth(folder / "plan.json", quoted.digest, folder / "cdk.out", quoted.amounts(None))
        try:
            refuse_update(difference_of(assembly, session, plan.place.target), plan.cluster_name)
        except ImpossibleError as refusal:
            return refusal.findings[0].message if refusal.findings else refusal.message
    return None


def difference_lines(found: Difference, context: DeployContext, region: str, words: Iterable[str]) -> Iterator[str]:
    """The difference in the plan's words, then stack by stack, then in dollars an hour."""
    first, *more = words
    yield f"what changes: {first}"
    yield from (f"  {line}" for line in more)
    if found.unasked is not None:
        yield f"  AWS is not asked what exists already ({found.unasked}): everything counts as new"
    if not found.before:
        count = sum(len(each.resources) for each in found.stacks)
        stacks_words = f"{len(found.stacks)} new stack{'s' if len(found.stacks) > 1 else ''}"
        after = hourly_rate(found.after.values(), context.catalog, region)
        yield f"  {count} resources in {stacks_words}; {after.sentence}"
        return
    for stack in found.stacks:
        yield f"  {stack.name}: {_counts(stack)}"
        if not stack.new:
            yield from (f"    {line}" for line in _listed(stack.resources))
    before = hourly_rate(found.before.values(), context.catalog, region)
    after = hourly_rate(found.after.values(), context.catalog, region)
    same = before == after
    yield f"  {after.sentence}" + (", as before" if same else f"; before: {before.words}")
    momentous = [each for each in found.changes if each.change in REPLACING and each.type in MOMENTOUS]
    if momentous or not same:
        parts = [f"{each.change}: {each.logical_id} ({each.type})" for each in momentous]
        parts += [] if same else [f"${before.usd:,.2f} an hour becomes ${after.usd:,.2f}"]
        yield f"  this changes existing resources: {'; '.join(parts)}"


def _counts(stack: StackChange) -> str:
    """The changes of a stack, counted."""
    counted = [f"{stack.count(each)} {each}" for each in Change if stack.count(each)]
    if counted:
        return ", ".join(counted)
    return "no change" if stack.same else "its outputs alone"


def _listed(changes: Sequence[ResourceChange]) -> Iterator[str]:
    """One line a resource, what replaces something first."""
    order = [Change.REPLACED, Change.MAYBE_REPLACED, Change.REMOVED, Change.KEPT, Change.CHANGED, Change.NEW]
    ranked = sorted(changes, key=lambda each: (order.index(each.change), each.type, each.logical_id))
    for each in ranked[:LISTED]:
        because = f": {', '.join(each.because)}" if each.because else ""
        yield f"{each.change:<15} {each.type}  {each.logical_id}{because}"
        yield from (f"  {key.needs:<14} {change_words(key)}" for key in each.keys)
    if len(ranked) > LISTED:
        yield f"and {len(ranked) - LISTED} more"
