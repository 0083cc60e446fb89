"""The update of stacks that exist: what refuses it, and the compute fleet that it needs stopped."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from launcher.aws.session import Session
from launcher.aws.stacks import StackState
from launcher.cdk.difference import ResourceChange, StackChange, broken_exports, imports
from launcher.model.errors import ImpossibleError
from launcher.model.finding import Finding, error
from launcher.model.plan import Plan
from launcher.model.stages import Tell
from launcher.model.update import KeyChange, Needs
from launcher.workflow.cluster.readback.training import COMPLETE
from launcher.workflow.cluster.targets import Cluster, cluster_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """An assembly held against the stacks that exist.

    `states` are those of its stacks as they were looked at, `before` and `after` their templates. `unasked` is why AWS
    was not asked, where it was not: then everything counts as new.
    """

    states: Mapping[str, StackState | None]
    before: Mapping[str, Mapping[str, Any]]
    after: Mapping[str, Mapping[str, Any]]
    stacks: tuple[StackChange, ...]
    unasked: str | None = None

    @property
    def none(self) -> bool:
        """Whether every stack is there already, whole and made of the same things."""
        whole = all(state is not None and state.status in COMPLETE for state in self.states.values())
        return whole and all(each.same for each in self.stacks)

    @property
    def changes(self) -> Iterator[ResourceChange]:
        """Every resource that changes in stacks that are there."""
        return (each for stack in self.stacks if not stack.new for each in stack.resources)

    @property
    def keys(self) -> Iterator[KeyChange]:
        """Every key that changes in the clusters that are there."""
        return (key for each in self.changes for key in each.keys)


def change_words(found: KeyChange) -> str:
    """The change of a key, in a line.

    >>> change_words(KeyChange(path="MaxCount", old=2, new=4, needs=Needs.NOTHING, plan_key="target.nodes"))
    'MaxCount: 2 -> 4 (target.nodes)'
    """
    # The plan's key says where it is.
    name = found.path.rpartition(".")[2] if found.plan_key else found.path
    if found.old == found.new:
        words = f"{name}: {found.old} stays"
    elif found.old is None or found.new is None:
        words = f"{name}: {'added' if found.old is None else 'removed'}"
    elif isinstance(found.old, Mapping | list) or isinstance(found.new, Mapping | list):
        words = f"{name}: changed"
    else:
        words = f"{name}: {found.old} -> {found.new}"
    return f"{words} ({found.plan_key})" if found.plan_key else words


def refuse_update(found: Difference, cluster: str) -> None:
    """Go on only with changes that CloudFormation and the cluster's service carry out.

    Raises:
        ImpossibleError: the deployment would be rolled back, with every change that is in the way.
    """
    _refuse_broken_exports(found)
    refused = [_refusal(each) for each in found.keys if each.needs is Needs.NEW_CLUSTER]
    if refused:
        raise ImpossibleError(
            f"cluster {cluster} cannot be changed in this way: the deployment would be rolled back",
            hint=f"take the change back, or slipway down {cluster} and launch again, or give the plan another name",
            findings=refused,
        )


def _refusal(found: KeyChange) -> Finding:
    """Why a change needs a new cluster."""
    keep = f"{found.plan_key}: {found.old}" if found.plan_key and isinstance(found.old, str | int) else ""
    message = f"{change_words(found)}: {found.why or 'an existing cluster keeps it'}"
    return error("needs-new-cluster", found.plan_key, message, f"{keep} keeps the cluster" if keep else "")


def _refuse_broken_exports(found: Difference) -> None:
    """Go on only with changes that CloudFormation can carry out."""
    for change in found.stacks:
        if change.new:
            continue
        broken = broken_exports(found.before[change.name], found.after[change.name], change)
        for user, template in found.before.items():
            used = sorted(set(imports(template)) & broken.keys()) if user != change.name else []
            if used:
                cluster = user.removeprefix("slipway-").rpartition("-")[0]
                raise ImpossibleError(
                    f"stack {user} uses {used[0]} of {change.name}, and {broken[used[0]]}: CloudFormation refuses that "
                    "while it is used",
                    hint=f"slipway down {cluster} removes it, or revert the change",
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """A compute fleet that runs and has to be stopped for an update."""

    session: Session
    name: str
    cluster: Cluster


def fleet_to_stop(found: Difference, plan: Plan, session: Session, tell: Tell) -> Fleet | None:
    """The fleet that an update needs stopped, told with what is lost; None where it needs none, or none runs."""
    needing = [each for each in found.keys if each.needs is Needs.STOPPED_FLEET]
    if not needing:
        return None
    cluster, name = cluster_of(plan), f"slipway-{plan.cluster_name}"
    nodes = cluster.running_nodes(session, name)
    if nodes is None:
        return None
    changed = ", ".join(dict.fromkeys(each.plan_key or each.path for each in needing))
    tell(f"  {changed}: the compute fleet is stopped for this and started again afterwards")
    if nodes:
        tell(
            f"  {nodes} running node{'s end' if nodes > 1 else ' ends'}: jobs on them go back to the queue and lose "
            "what they did since their newest checkpoint"
        )
    return Fleet(session=session, name=name, cluster=cluster)


@contextmanager
def stopped(fleet: Fleet | None, tell: Tell) -> Iterator[None]:
    """A part of a deployment with a stopped fleet, which is started again when all went well.

    Raises:
        DeploymentFailedError: it does not stop.
        AwsError: a call failed.
    """
    if fleet is None:
        yield
        return
    fleet.cluster.stop_fleet(fleet.session, fleet.name, tell)
    try:
        yield
    except BaseException:
        tell(f"the compute fleet of {fleet.name} is stopped: the next launch or deployment starts it")
        raise
    fleet.cluster.start_fleet(fleet.session, fleet.name, tell)
