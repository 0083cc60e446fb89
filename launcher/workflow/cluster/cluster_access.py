"""A deployed or named cluster without regard to a job: what its nodes are listed and changed through."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from launcher.aws import instances
from launcher.aws.session import Session
from launcher.model.cluster_nodes import ClusterNode, NodeInstance, NodeUse
from launcher.model.plan import Plan
from launcher.model.stages import Notify
from launcher.records.submission import HeadNode
from launcher.submit.kubernetes.connection import Connection
from launcher.submit.shell import Shell
from launcher.submit.slurm_nodes import SlurmNode
from launcher.targets.registry import target_of


def _silent(_: str) -> None:
    """Report nothing: reads of a cluster do not wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAccess:
    """The access to a cluster."""

    plan: Plan
    cluster: str
    head_node: HeadNode
    # Those of its training stack, empty if Slipway did not deploy it.
    outputs: Mapping[str, str]
    # That of its account or sandbox.
    session: Session
    shell: Callable[[], AbstractContextManager[Shell]]
    api: Callable[[], AbstractContextManager[Connection]]
    # The instance of each node of a sandbox, where all nodes have this computer's address.
    placed: Callable[[], Mapping[str, str]]
    # Receives what a change of a node waits for.
    notify: Notify = _silent


def ec2_instances(access: ClusterAccess) -> tuple[NodeInstance, ...]:
    """The starting and running EC2 instances of a cluster's nodes; empty if Slipway did not deploy it."""
    tags = target_of(access.plan.place.target).instance_tags
    if tags is None or not access.outputs:
        return ()
    more = [{"Name": f"tag:{tags.role}", "Values": [tags.node]}]
    found = instances.cluster_instances(access.session, tags.cluster, f"{tags.prefix}{access.plan.cluster_name}", more)
    return tuple(
        NodeInstance(
            id=instance.id,
            names=frozenset(filter(None, (instance.id, instance.address, instance.host))),
            group="",
            instance_type=instance.instance_type,
            launched_at=instance.launched_at,
        )
        for instance in found
    )


def with_instances(
    nodes: Iterable[SlurmNode], known: Iterable[NodeInstance], placed: Mapping[str, str]
) -> tuple[ClusterNode, ...]:
    """The nodes of Slurm, each with its instance: by Slurm's own word, by its address, or by the sandbox's."""
    by_name = {name: instance for instance in known for name in instance.names}
    described = []
    for listed in nodes:
        node = listed.node
        names = filter(None, (node.instance, placed.get(node.name), *listed.addresses, node.name))
        instance = None if node.use is NodeUse.OFF else next((by_name[name] for name in names if name in by_name), None)
        described.append(node if instance is None else _with_instance(node, instance))
    return tuple(described)


def _with_instance(node: ClusterNode, instance: NodeInstance) -> ClusterNode:
    idle = node.idle_since
    return replace(
        node,
        instance=instance.id,
        instance_type=instance.instance_type,
        up_since=instance.launched_at,
        idle_since=None if idle is None else max(idle, instance.launched_at),
        reason=node.reason or instance.message,
    )
