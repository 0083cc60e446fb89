"""The changes of a deployment in words: of the plan, of each stack, and in dollars an hour."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from launcher.cdk.difference import (
    REPLACING,
    Change,
    ResourceChange,
    StackChange,
)
from launcher.model.quote import Quote
from launcher.model.units import number_of
from launcher.model.update import KeyChange, Needs
from launcher.workflow.deploy.assembly_difference import AssemblyDifference
from launcher.workflow.deploy.context import DeployContext
from launcher.workflow.doctor.rates import hourly_rate

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


def owner_text(change: ResourceChange) -> str:
    """What a resource belongs to, in words."""
    return "endpoint" if change.type.startswith(OF_ENDPOINTS) else "cluster"


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
            needs = f"new {owner_text(change)}" if key.needs is Needs.NEW_CLUSTER else key.needs
            yield f"  {needs:<14} {_with_effect(key)}"
    if len(ranked) > LISTED:
        yield f"and {len(ranked) - LISTED} more"
