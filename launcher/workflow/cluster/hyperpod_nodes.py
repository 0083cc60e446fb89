"""The nodes of a HyperPod cluster as SageMaker lists them, with either scheduler: reboot, replacement, boot output."""

from collections.abc import Container
from dataclasses import replace

from launcher.aws import hyperpod, log_groups
from launcher.aws.calls import forbidden
from launcher.aws.session import Session, error_code, own_endpoint
from launcher.model.cluster_nodes import ClusterNode, NodeAction, NodeEffect, NodeFacts, NodeInstance
from launcher.model.eks import SYSTEM
from launcher.model.errors import AwsError, ImpossibleError
from launcher.model.hyperpod import CHECK_MINUTES, CHECKING, CONTROLLER, LOGIN
from launcher.model.service_updates import HYPERPOD_TYPE
from launcher.model.units import number_of
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
_CHECK_TIME = "{} to {} minutes on AWS".format(*CHECK_MINUTES)
_BOOT_LINES = 100
_OTHERS = frozenset({CONTROLLER, LOGIN, SYSTEM})
"""Groups whose instances run no jobs."""


def node_instances(access: ClusterAccess) -> tuple[NodeInstance, ...]:
    """The instances of the groups that run jobs."""
    if not access.outputs:
        return ()

    def message(node: NodeInstance) -> str:
        text = node.message or ("SageMaker keeps jobs off it until the checks end" if node.state == CHECKING else "")
        return "" if node.state == "Running" else ": ".join(filter(None, (node.state, text)))

    return tuple(
        replace(node, message=message(node))
        for node in hyperpod.nodes(access.session, access.outputs["ClusterName"])
        if node.group not in _OTHERS
    )


def refuse_during_checks(session: Session, cluster: str, changed: Container[str], rate: str = "") -> None:
    """Refuse changes of a cluster's resource during deep health checks; `rate` are its dollars an hour.

    UpdateCluster answers then with "an error message stating that deep health checks are in progress" (SageMaker
    developer guide, "Updating SageMaker HyperPod cluster configuration" of EKS, read 2026-11-29).

    Raises:
        ImpossibleError: checks run.
        AwsError: SageMaker does not list the instances; without permission for it, SageMaker itself refuses.
    """
    if HYPERPOD_TYPE not in changed:
        return
    try:
        checked = [node for node in hyperpod.nodes(session, cluster) if node.state == CHECKING]
    except AwsError as problem:
        if forbidden(problem) or error_code(problem) == "ResourceNotFound":
            return
        raise
    if not checked:
        return
    since = max(node.launched_at for node in checked)
    costs = f"; meanwhile the cluster costs {rate} an hour" if rate else ""
    emulated = "seconds in a sandbox, and " if own_endpoint(session.environment, "sagemaker") else ""
    raise ImpossibleError(
        f"deep health checks run on {number_of(len(checked), 'instance')} of HyperPod cluster {cluster}"
        f" ({', '.join(sorted(node.id for node in checked))}), and SageMaker refuses updates until they end; nothing"
        " was changed",
        hint=f"run this command again after the checks: they take {emulated}{_CHECK_TIME}; the newest of these"
        f" instances started at {since:%Y-%m-%d %H:%M} UTC{costs}",
    )


def refuse_checked(action: NodeAction, node: ClusterNode) -> None:
    """Refuse to reboot, replace or check a node under deep health checks: SageMaker answers InvalidInstanceStatus.

    Raises:
        ImpossibleError: SageMaker checks the node.
    """
    if node.reason.startswith(CHECKING) and action in (NodeAction.REBOOT, NodeAction.REPLACE, NodeAction.CHECK):
        raise ImpossibleError(
            f"deep health checks run on {node.name}, and SageMaker does not {action} it until they end",
            hint=f"run this command again after the checks, which take {_CHECK_TIME}; slipway nodes NAME shows when"
            " they have ended; SageMaker itself reboots or replaces an instance that fails",
        )


def check_effect(facts: NodeFacts) -> NodeEffect:
    """What a deep health check does to a node.

    Raises:
        ImpossibleError: a job runs on the node. With Slurm a check waits 10 minutes for it and is skipped then
            (developer guide, deep health checks of Slurm clusters); with EKS AWS documents nothing.
    """
    node = facts.node
    if node.job is not None:
        raise ImpossibleError(
            f"job {node.job} runs on {node.name}: with Slurm SageMaker skips the check of a busy node, and with EKS AWS"
            " documents no effect",
            hint=f"slipway nodes NAME drain {node.name}, and check it once the job has ended",
        )
    return NodeEffect(job=facts.loses, node=CHECKED, cost=f"{facts.usd_text}, also while it is checked")


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
