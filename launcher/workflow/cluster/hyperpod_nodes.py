"""The nodes of a HyperPod cluster as SageMaker lists them, with either scheduler: reboot, replacement, boot output."""

from dataclasses import replace

from launcher.aws import hyperpod, log_groups
from launcher.model.cluster_nodes import ClusterNode, NodeAction, NodeEffect, NodeFacts, NodeInstance
from launcher.model.eks import SYSTEM
from launcher.model.errors import ImpossibleError
from launcher.model.hyperpod import CONTROLLER, LOGIN
from launcher.workflow.cluster.cluster_access import ClusterAccess

REPLACED = (
    "SageMaker ends its instance with its disks, and starts another one, which passes the group's health checks first"
)
REBOOTED = "SageMaker reboots its instance, which keeps its disks and its host"
CHECKED = (
    "SageMaker keeps jobs off it while it tests CPUs, memory, disks, accelerators and EFA; it reboots or replaces an"
    " instance that fails"
)
"""SageMaker developer guide, "Deep health checks", and the API reference of StartClusterHealthCheck (2026-11)."""
_BOOT_LINES = 100
_OTHERS = frozenset({CONTROLLER, LOGIN, SYSTEM})
"""Groups whose instances run no jobs."""
_FINE = "Running"


def node_instances(access: ClusterAccess) -> tuple[NodeInstance, ...]:
    """The instances of the groups that run jobs."""
    if not access.outputs:
        return ()
    return tuple(
        replace(node, message="" if node.state == _FINE else ": ".join(filter(None, (node.state, node.message))))
        for node in hyperpod.nodes(access.session, access.outputs["ClusterName"])
        if node.group not in _OTHERS
    )


def check_effect(facts: NodeFacts) -> NodeEffect:
    """What a deep health check does to a node.

    Raises:
        ImpossibleError: a job runs on the node. AWS does not document what becomes of it.
    """
    node = facts.node
    if node.job is not None:
        raise ImpossibleError(
            f"job {node.job} runs on {node.name}, and AWS does not document what a deep health check does to it",
            hint=f"slipway nodes NAME drain {node.name}, and check it once the job has ended",
        )
    return NodeEffect(job=facts.loses, node=CHECKED, cost=f"{facts.billed}, also while it is checked")


def change(action: NodeAction, node: ClusterNode, access: ClusterAccess) -> None:
    """Reboot, replace or check a node's instance.

    Raises:
        ImpossibleError: no instance is known for the node.
        AwsError: SageMaker refuses.
    """
    if node.instance is None or not access.outputs:
        raise ImpossibleError(
            f"which instance of {access.cluster} node {node.name} has is not known",
            hint="slipway nodes NAME shows the instances; aws sagemaker list-cluster-nodes lists them",
        )
    name = access.outputs["ClusterName"]
    if action is NodeAction.CHECK:
        hyperpod.check(access.session, name, group=_group(node, access), instance=node.instance)
        return
    call = hyperpod.reboot if action is NodeAction.REBOOT else hyperpod.replace
    call(access.session, name, node.instance)


def _group(node: ClusterNode, access: ClusterAccess) -> str:
    """The instance group of a node: a scheduler may name another, such as Slurm's partition."""
    return next((each.group for each in node_instances(access) if each.id == node.instance), node.group)


def boot_output(access: ClusterAccess, node: ClusterNode) -> str:
    """The output of the scripts that HyperPod runs at the start of an instance, from CloudWatch."""
    if node.instance is None or not access.outputs:
        return ""
    name, cluster_id = access.outputs["ClusterName"], access.outputs["ClusterId"]
    # SageMaker developer guide, "SageMaker HyperPod cluster resources monitoring": the streams of life-cycle scripts.
    stream = f"LifecycleConfig/{_group(node, access)}/{node.instance}"
    lines = log_groups.last_lines(access.session, f"/aws/sagemaker/Clusters/{name}/{cluster_id}", stream, _BOOT_LINES)
    return "\n".join(lines)
