"""The nodes of a run's cluster as text and JSON, and an action on one of them: `slipway nodes`."""

from datetime import datetime
from decimal import Decimal
from typing import Literal

from launcher.answers import words
from launcher.answers.lines import fold
from launcher.answers.straggler import straggler_lines
from launcher.answers.table import Column, dollars, render
from launcher.model.cluster_nodes import ClusterNode, NodeAction, NodeUse
from launcher.model.enums import TargetKind
from launcher.model.straggler import Straggler
from launcher.model.units import duration_text, number_of
from launcher.records.codec import Json, as_json
from launcher.records.document import fill_record, json_object
from launcher.targets.registry import target_of
from launcher.workflow.run.cluster_nodes import ListedNodes, PlannedAction

NEXT = "  next:"


@json_object
class NodeDocument:
    """A node: null for what is not known, and for what the node does not have."""

    number: int
    name: str
    instance: str | None
    instance_type: str
    group: str
    use: NodeUse
    state: str
    reason: str
    job: str | None
    up_since: datetime | None
    idle_since: datetime | None
    usd_since_idle: Decimal | None
    boot: tuple[str, ...]

    @classmethod
    def of(cls, listed: ListedNodes, number: int, node: ClusterNode) -> "NodeDocument":
        """The document of a node."""
        return fill_record(cls, node, number=number, usd_since_idle=listed.idle_usd(node))


@json_object
class NodesDocument:
    """The nodes of a cluster; `usd_per_hour` is the quoted rate of one of them."""

    schema: Literal["slipway.nodes/1"] = "slipway.nodes/1"
    name: str
    run: str
    cluster: str
    target: TargetKind
    region: str
    simulated: bool
    as_of: datetime
    usd_per_hour: Decimal | None
    nodes: tuple[NodeDocument, ...]
    stragglers: tuple[Straggler, ...]


@json_object
class NodeActionDocument:
    """An action on a node, and what it does to the job, to the node, and to the bill."""

    schema: Literal["slipway.node-action/1"] = "slipway.node-action/1"
    name: str
    cluster: str
    action: NodeAction
    node: str
    instance: str | None
    job: str | None
    on_job: str
    on_node: str
    cost: str
    done: bool


def document(listed: ListedNodes) -> Json:
    """slipway.nodes/1."""
    nodes = tuple(NodeDocument.of(listed, number, node) for number, node in enumerate(listed.nodes))
    return as_json(fill_record(NodesDocument, listed, nodes=nodes))


def action_document(planned: PlannedAction, *, done: bool) -> Json:
    """slipway.node-action/1."""
    effect, node = planned.effect, planned.node
    return as_json(
        NodeActionDocument(
            name=planned.listed.name,
            cluster=planned.listed.cluster,
            action=planned.action,
            node=node.name,
            instance=node.instance,
            job=node.job,
            on_job=effect.job,
            on_node=effect.node,
            cost=effect.cost,
            done=done,
        )
    )


def page(listed: ListedNodes, width: int) -> list[str]:
    """The nodes as a table, then the reason and the boot output of each that has one."""
    where = "the sandbox" if listed.simulated else listed.region
    head = f"  {listed.name} · cluster {listed.cluster} in {where} · {number_of(len(listed.nodes), 'node')}"
    if listed.usd_per_hour is not None:
        head += f" · ${words.dollars(listed.usd_per_hour)} an hour each"
    lines = ["", *fold(head, width), ""]
    if not listed.nodes:
        return [*lines[:-1], "  it has no nodes now: a job starts them, or slipway launch FILE"]
    lines += _table(listed, width)
    for number, node in enumerate(listed.nodes):
        lines += [piece for text in _notes(number, node) for piece in fold(text, width, 4)]
        lines += [words.shorten(f"     | {line}", width) for line in node.boot]
    lines += straggler_lines(listed.name, listed.stragglers, width, replaceable=not target_of(listed.target).is_managed)
    return [*lines, *_next(listed)]


def _table(listed: ListedNodes, width: int) -> list[str]:
    rows = list(enumerate(listed.nodes))
    columns: list[Column[tuple[int, ClusterNode]]] = [
        Column("#", lambda row: str(row[0]), "right"),
        Column("node", lambda row: row[1].name, shrinks=True),
        Column("instance", lambda row: row[1].instance or "", yields=2),
        Column("type", lambda row: row[1].instance_type, yields=3),
        Column("group", lambda row: row[1].group, yields=5),
        Column("state", lambda row: row[1].use.value),
        Column("job", lambda row: row[1].job or "", yields=1, shrinks=True),
        Column("up", lambda row: _since(listed, row[1].up_since), "right", yields=4),
        Column("idle", lambda row: "" if row[1].use is NodeUse.OFF else _since(listed, row[1].idle_since), "right"),
        dollars("$ idle", lambda row: listed.idle_usd(row[1]), ""),
    ]
    return render(columns, rows, width)


def _since(listed: ListedNodes, moment: datetime | None) -> str:
    return "" if moment is None else duration_text(max(0.0, (listed.as_of - moment).total_seconds()))


def _notes(number: int, node: ClusterNode) -> list[str]:
    """The scheduler's word and reason of a node that is not plainly at work or idle, or of which a reason is known."""
    notes = []
    if node.use is not NodeUse.OFF and (node.reason or node.use not in (NodeUse.BUSY, NodeUse.IDLE)):
        reason = f": {node.reason}" if node.reason else ""
        notes.append(f"  {number}: {node.state}{reason}")
    return notes


def _next(listed: ListedNodes) -> list[str]:
    bad = next(((number, node) for number, node in enumerate(listed.nodes) if node.use is NodeUse.DOWN), None)
    held = next(((number, node) for number, node in enumerate(listed.nodes) if node.use is NodeUse.DRAINED), None)
    if bad is not None:
        return [f"{NEXT} slipway nodes {listed.name} replace {bad[0]}"]
    return [] if held is None else [f"{NEXT} slipway nodes {listed.name} resume {held[0]}"]


def action_lines(planned: PlannedAction, width: int) -> list[str]:
    """What an action does, before the question."""
    node, effect = planned.node, planned.effect
    instance = f" ({node.instance})" if node.instance not in (None, node.name) else ""
    texts = (
        f"  {planned.action} {node.name}{instance} of {planned.listed.cluster}",
        f"    job   {effect.job}",
        f"    node  {effect.node}",
        f"    cost  {effect.cost}{' (simulated)' if planned.listed.simulated else ''}",
    )
    return ["", *(piece for text in texts for piece in wrapped_label(text, width))]


def wrapped_label(text: str, width: int) -> list[str]:
    """A line whose continuation lines begin below its value."""
    if not text.startswith("    "):
        return fold(text, width)
    label, value = text[:10], text[10:]
    first, *rest = fold(f"{' ' * 10}{value}", width)
    return [f"{label}{first[10:]}", *rest]


def done_lines(planned: PlannedAction) -> list[str]:
    """What was asked for, and the command that shows what becomes of it."""
    verbs = {
        NodeAction.DRAIN: "is being drained",
        NodeAction.REBOOT: "will reboot",
        NodeAction.REPLACE: "is being replaced",
        NodeAction.RESUME: "accepts jobs again",
        NodeAction.CHECK: "is being checked",
    }
    return [f"  {planned.node.name} {verbs[planned.action]}", "", f"{NEXT} slipway nodes {planned.listed.name}"]
