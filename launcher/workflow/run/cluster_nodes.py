"""The nodes of a run's cluster with their dollars, and the actions on one of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal

from launcher.aws.calls import forbidden
from launcher.model.cluster_nodes import ClusterNode, NodeAction, NodeEffect, NodeFacts, NodeUse, node_numbered
from launcher.model.enums import TargetKind
from launcher.model.errors import AwsError, ImpossibleError
from launcher.model.money import CENT
from launcher.model.run_cost import NO_RATES
from launcher.model.stages import Notify
from launcher.model.straggler import Straggler
from launcher.model.units import HOUR_S
from launcher.records.run_folder import EVENTS, JOB_FOLDER, RunFolder
from launcher.records.stored_quote import QUOTE_FILE, stored_quote
from launcher.records.submission import SANDBOX
from launcher.targets.clusters import cluster_of
from launcher.workflow.cluster.cluster_access import ClusterAccess
from launcher.workflow.history.attempts import NODE_CHANGED, attempts, job_events, read_events, unsaved_s
from launcher.workflow.run.meter import meter_of
from launcher.workflow.run.node_access import cluster_access
from launcher.workflow.run.stragglers import stragglers

BOOT_LINES, MAX_LINE = 6, 200
"""Lines of boot output of a node that starts or is down, and characters of each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedNodes:
    """The nodes of a run's cluster. `usd_per_hour` is the quoted rate of one node, None if unknown."""

    name: str
    run: str
    cluster: str
    target: TargetKind
    region: str
    simulated: bool
    as_of: datetime
    usd_per_hour: Decimal | None
    nodes: tuple[ClusterNode, ...]
    # Of the run's job, as the agent named them in the events that this computer has.
    stragglers: tuple[Straggler, ...] = ()

    def idle_usd(self, node: ClusterNode) -> Decimal | None:
        """The cost of a node since it became idle; None for a node at work, and if its rate is unknown."""
        if node.idle_since is None or node.use is NodeUse.OFF or self.usd_per_hour is None:
            return None
        hours = Decimal(max(0.0, (self.as_of - node.idle_since).total_seconds()) / HOUR_S)
        return (self.usd_per_hour * hours).quantize(CENT)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedAction:
    """An action on a node of a run's cluster before it is carried out, with its effect."""

    listed: ListedNodes
    action: NodeAction
    node: ClusterNode
    effect: NodeEffect


def list_nodes(name: str, folder: RunFolder, environment: Mapping[str, str], now: datetime) -> ListedNodes:
    """The nodes of the cluster of a run; the boot output only of nodes that start or are down.

    Raises:
        ImpossibleError: the cluster has no nodes, or no longer exists.
    """
    with cluster_access(name, folder, environment) as access:
        return _list_nodes(name, folder, access, now)


def plan_action(
    name: str, folder: RunFolder, environment: Mapping[str, str], now: datetime, *, action: NodeAction, wanted: str
) -> PlannedAction:
    """What an action would do to a node, by its name, its instance, or its number.

    Raises:
        ImpossibleError: there is no such node, or it is not in a state for the action.
    """
    with cluster_access(name, folder, environment) as access:
        listed = _list_nodes(name, folder, access, now, boots=False)
        node = node_numbered(listed.nodes, wanted)
        if node is None:
            named = ", ".join(f"{number} {each.name}" for number, each in enumerate(listed.nodes))
            raise ImpossibleError(f"{access.cluster} has no node {wanted}", hint=f"its nodes: {named or 'none'}")
        facts = _facts(folder, listed, node, now)
        try:
            _refuse_unfit(action, node)
            effect = cluster_of(access.plan).node_effect(action, facts)
        except ImpossibleError as problem:
            hint = _fill_names(problem.hint or "", name, node)
            raise ImpossibleError(problem.message, hint=hint) from problem
    named_effect = replace(effect, node=_fill_names(effect.node, name, node))
    return PlannedAction(listed=listed, action=action, node=node, effect=named_effect)


def _fill_names(text: str, name: str, node: ClusterNode) -> str:
    """A text whose commands name the run and the node."""
    return text.replace("NAME", name).replace("NODE", node.name)


def act_on_node(
    name: str, folder: RunFolder, environment: Mapping[str, str], planned: PlannedAction, notify: Notify
) -> None:
    """Carry out an action, report what it waits for, and note it in the run's events."""
    began, node = datetime.now(UTC).isoformat(), planned.node
    with cluster_access(name, folder, environment) as access:
        cluster_of(access.plan).change_node(planned.action, node, replace(access, notify=notify))
    folder.append_event(
        NODE_CHANGED,
        action=planned.action.value,
        node=node.name,
        instance=node.instance,
        began=began,
        ends_job=planned.effect.ends_job and node.job is not None,
    )


def _refuse_unfit(action: NodeAction, node: ClusterNode) -> None:
    """Refuse an action on a node without an instance, and one that changes nothing."""
    if node.use is NodeUse.OFF:
        raise ImpossibleError(
            f"{node.name} has no running instance ({node.state})", hint="the scheduler starts one when a job needs it"
        )
    if action is NodeAction.DRAIN and node.use in (NodeUse.DRAINING, NodeUse.DRAINED):
        raise ImpossibleError(f"{node.name} is {node.use} already", hint="slipway nodes NAME resume NODE ends that")
    if action is NodeAction.RESUME and node.use in (NodeUse.BUSY, NodeUse.IDLE, NodeUse.STARTING):
        raise ImpossibleError(f"{node.name} is {node.use}, not drained", hint="only drained and down nodes are resumed")


def _list_nodes(
    name: str, folder: RunFolder, access: ClusterAccess, now: datetime, *, boots: bool = True
) -> ListedNodes:
    nodes = idle_since_job(cluster_of(access.plan).nodes(access), folder, access.plan.place.nodes)
    return ListedNodes(
        name=name,
        run=folder.path.name,
        cluster=access.cluster,
        target=access.plan.place.target,
        region=access.plan.place.region,
        simulated=access.head_node.via == SANDBOX,
        as_of=now,
        usd_per_hour=_rate(folder, [node.instance_type for node in nodes]),
        nodes=tuple(_with_boot(node, access) if boots and node.use.needs_boot_output else node for node in nodes),
        stragglers=stragglers(read_events(folder.path / JOB_FOLDER / EVENTS), meter_of(folder, now), now),
    )


def idle_since_job(nodes: Sequence[ClusterNode], folder: RunFolder, of_job: int) -> tuple[ClusterNode, ...]:
    """The nodes, idle at most since the end of the run's last attempt, which had them all if it needs as many.

    Kubernetes keeps no record of a pod that was evicted or whose job was cancelled.
    """
    ran = attempts(job_events(folder))
    ended = ran[-1].ended_at if ran else None
    if ended is None or len(nodes) > of_job:
        return tuple(nodes)
    return tuple(
        node if node.idle_since is None else replace(node, idle_since=max(node.idle_since, ended)) for node in nodes
    )


def _rate(folder: RunFolder, types: Sequence[str]) -> Decimal | None:
    """The quoted rate of one node; where EC2 chose the types, their mean."""
    if not (folder.path / QUOTE_FILE).is_file():
        return None
    quote = stored_quote(folder)
    if quote.usd_per_hour is None or not quote.nodes:
        return None
    return (quote.rates or NO_RATES).for_types(types, quote.usd_per_hour) / quote.nodes


def dearest_rate(folder: RunFolder) -> Decimal | None:
    """The rate of one node of the dearest type that EC2 may choose; None if it has no choice."""
    if not (folder.path / QUOTE_FILE).is_file():
        return None
    quote = stored_quote(folder)
    rates = [usd for _, usd in (quote.rates or NO_RATES).type_usd_per_hour]
    return max(rates) / quote.nodes if rates and quote.nodes else None


def _with_boot(node: ClusterNode, access: ClusterAccess) -> ClusterNode:
    """The node with the end of its boot output, or with the reason why that could not be read."""
    try:
        output = cluster_of(access.plan).boot_output(access, node)
    except AwsError as problem:
        if not forbidden(problem):
            raise
        return replace(node, boot=(f"not read: {problem.message}",))
    lines = [line.strip()[:MAX_LINE] for line in output.splitlines() if line.strip()]
    return replace(node, boot=tuple(lines[-BOOT_LINES:]))


def _facts(folder: RunFolder, listed: ListedNodes, node: ClusterNode, now: datetime) -> NodeFacts:
    of_job = [each for each in listed.nodes if each.job is not None and each.job == node.job]
    rate = listed.usd_per_hour
    return NodeFacts(
        node=node,
        usd_per_hour=rate,
        job_usd_per_hour=None if rate is None else rate * len(of_job),
        unsaved_s=unsaved_s(read_events(folder.path / JOB_FOLDER / EVENTS), now) if node.job is not None else None,
        dearest_usd_per_hour=dearest_rate(folder),
    )
