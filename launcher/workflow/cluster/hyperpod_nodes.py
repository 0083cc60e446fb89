"""The nodes of a HyperPod cluster as SageMaker lists them, with either scheduler: reboot, replacement, boot output."""

from launcher.aws import hyperpod, log_groups
from launcher.model.cluster_nodes import ClusterNode, NodeAction
from launcher.model.eks import SYSTEM
from launcher.model.errors import ImpossibleError
from launcher.model.hyperpod import CONTROLLER, LOGIN
from launcher.workflow.cluster.cluster_access import ClusterAccess, NodeInstance

REPLACED = (
    "SageMaker ends its instance with its disks, and starts another one, which passes the group's health checks first"
)
REBOOTED = "SageMaker reboots its instance, which keeps its disks and its host"
_BOOT_LINES = 100
_OTHERS = frozenset({CONTROLLER, LOGIN, SYSTEM})
"""Groups whose instances run no jobs."""
_FINE = "Running"


def node_instances(access: ClusterAccess) -> tuple[NodeInstance, ...]:
    """The instances of the groups that run jobs."""
    if not access.outputs:
        return ()
    return tuple(
        NodeInstance(
            id=node.id,
            names=frozenset(filter(None, (node.id, node.host))),
            group=node.group,
            instance_type=node.instance_type,
            launched_at=node.launched_at,
            state=node.status,
            message="" if node.status == _FINE else ": ".join(filter(None, (node.status, node.message))),
        )
        for node in hyperpod.nodes(access.session, access.outputs["ClusterName"])
        if node.group not in _OTHERS
    )


def change(action: NodeAction, node: ClusterNode, access: ClusterAccess) -> None:
    """Reboot or replace a node's instance.

    Raises:
        ImpossibleError: no instance is known for the node.
        AwsError: SageMaker refuses.
    """
    if node.instance is None or not access.outputs:
        raise ImpossibleError(
            f"which instance of {access.cluster} node {node.name} has is not known",
            hint="slipway nodes NAME shows the instances; aws sagemaker list-cluster-nodes lists them",
        )
    call = hyperpod.reboot if action is NodeAction.REBOOT else hyperpod.replace
    call(access.session, access.outputs["ClusterName"], node.instance)


def boot_output(access: ClusterAccess, node: ClusterNode) -> str:
    """The output of the scripts that HyperPod runs at the start of an instance, from CloudWatch."""
    if node.instance is None or not access.outputs:
        return ""
    name, cluster_id = access.outputs["ClusterName"], access.outputs["ClusterId"]
    group = next((each.group for each in node_instances(access) if each.id == node.instance), node.group)
    # SageMaker developer guide, "SageMaker HyperPod cluster resources monitoring": the streams of life-cycle scripts.
    stream = f"LifecycleConfig/{group}/{node.instance}"
    lines = log_groups.last_lines(access.session, f"/aws/sagemaker/Clusters/{name}/{cluster_id}", stream, _BOOT_LINES)
    return "\n".join(lines)
