"""The nodes of a Kubernetes cluster: their list, and a drain that lets pods save before their node goes."""

import time
from collections.abc import Callable
from dataclasses import replace

from launcher.model.cluster_nodes import (
    ClusterNode,
    NodeAction,
    NodeEffect,
    NodeFacts,
    NodeInstance,
    without_health_checks,
)
from launcher.model.errors import DeploymentFailedError
from launcher.model.stages import stage
from launcher.model.units import duration_text
from launcher.submit.kubernetes import cluster_nodes
from launcher.submit.kubernetes.connection import Connection
from launcher.workflow.cluster.cluster_access import ClusterAccess

DRAIN_S, POLL_S = 900.0, 2.0
"""A managed node group waits as long for the pods of a node (EKS user guide, managed node update behaviour)."""


def list_nodes(access: ClusterAccess, instances: tuple[NodeInstance, ...]) -> tuple[ClusterNode, ...]:
    """The nodes that run jobs; the words of a service about its instances are added to those of Kubernetes."""
    with access.api() as connection:
        nodes = cluster_nodes.read_nodes(connection)
    known = {instance.id: instance for instance in instances}
    wanted = access.plan.place.instance_type
    described = []
    for node in nodes:
        instance = known.get(node.instance or "")
        if node.instance_type.removeprefix("ml.") != wanted:
            continue
        reason = node.reason or (instance.message if instance is not None else "")
        started = instance.launched_at if instance is not None else node.up_since
        described.append(replace(node, reason=reason, up_since=started, instance_type=wanted))
    return tuple(described)


def effect(action: NodeAction, facts: NodeFacts, *, rebooted: str, replaced: str) -> NodeEffect:
    """What an action on a node does: its pods are evicted first, except for RESUME."""
    saves = facts.saves("its pod")
    match action:
        case NodeAction.DRAIN:
            node = "it accepts no pods until slipway nodes NAME resume NODE"
            return NodeEffect(
                job=saves, node=node, cost=f"{facts.usd_text}, also while no job runs on it", ends_job=True
            )
        case NodeAction.REBOOT:
            node = f"once its pods have ended, {rebooted}; slipway nodes NAME resume NODE lets it accept pods again"
            return NodeEffect(job=saves, node=node, cost=f"{facts.usd_text}, also while it reboots", ends_job=True)
        case NodeAction.REPLACE:
            cost = f"the new instance is billed at {facts.usd_text} from its start, also while it boots"
            return NodeEffect(job=saves, node=f"once its pods have ended, {replaced}", cost=cost, ends_job=True)
        case NodeAction.RESUME:
            return NodeEffect(job=facts.keeps, node="it accepts pods again", cost=f"{facts.usd_text}, as before")
        case NodeAction.CHECK:
            raise without_health_checks()


def change(
    action: NodeAction,
    node: ClusterNode,
    access: ClusterAccess,
    act: Callable[[], None],
    *,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Cordon a node, evict its pods and, for a reboot or a replacement, wait until they have ended; then `act`.

    Raises:
        DeploymentFailedError: pods of the node have not ended in time: it was drained, and nothing else was done.
    """
    with access.api() as connection:
        if action is NodeAction.RESUME:
            cluster_nodes.cordon(connection, node.name, schedulable=True)
            return
        cluster_nodes.drain(connection, node.name)
        if action is NodeAction.DRAIN:
            return
        _await_end(connection, node, access, sleep)
    act()


def _await_end(
    connection: Connection, node: ClusterNode, access: ClusterAccess, sleep: Callable[[float], None]
) -> None:
    remaining = cluster_nodes.evictable(connection, node.name)
    if not remaining:
        return
    waited = 0.0
    subject = f"waiting for the pods of {node.name} to save and end, at most {duration_text(DRAIN_S)}"
    with stage(access.notify, subject) as waiting:
        while remaining:
            names = ", ".join(pod["metadata"]["name"] for pod in remaining)
            waiting.now(f"{len(remaining)} left: {names}")
            if waited >= DRAIN_S:
                raise DeploymentFailedError(
                    f"pods of {node.name} have not ended after {duration_text(DRAIN_S)}: {names}; "
                    "the node is only drained",
                    hint="a PodDisruptionBudget or a long grace period holds them; run it again once they have ended",
                )
            sleep(POLL_S)
            waited += POLL_S
            remaining = cluster_nodes.evictable(connection, node.name)
