"""HyperPod clusters: their groups, nodes and quotas of teams."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from launcher.aws.calls import items, unless_absent
from launcher.aws.session import Session, error_code, translate_errors
from launcher.model.cluster_nodes import NodeInstance
from launcher.model.errors import AwsError
from launcher.model.hyperpod import ADDED_A_CALL

_NODES = "ClusterNodeSummaries"
_NO_CLUSTER = frozenset(("ResourceNotFound", "ResourceNotFoundException", "ValidationException"))


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupState:
    """An instance group: its SageMaker type, the current and requested number of instances, its Slurm role."""

    name: str
    instance_type: str
    current: int
    desired: int
    status: str
    node_type: str | None
    partitions: tuple[str, ...]
    health_checks: tuple[str, ...]
    training_plan_arn: str | None
    spot: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PodState:
    """A cluster: its state, whether SageMaker replaces faulty instances, its network, and its groups by name.

    `eks_arn` is the control plane that its nodes join, None with Slurm.
    """

    name: str
    arn: str
    status: str
    node_recovery: str | None
    subnets: tuple[str, ...]
    security_groups: tuple[str, ...]
    groups: Mapping[str, GroupState]
    eks_arn: str | None = None


def describe_quota(session: Session, arn: str) -> Mapping[str, Any]:
    """A team's quota of a cluster, as SageMaker describes it."""
    with translate_errors(f"describe compute quota {arn}"):
        quota = session.client("sagemaker").describe_compute_quota(ComputeQuotaId=arn.rpartition("/")[2])
    described: Mapping[str, Any] = quota
    return described


def describe_cluster(session: Session, name: str) -> PodState:
    """The state of a cluster."""
    with translate_errors(f"describe HyperPod cluster {name}"):
        description = session.client("sagemaker").describe_cluster(ClusterName=name)
    network = description.get("VpcConfig", {})
    groups = [_group(group) for group in description.get("InstanceGroups", ())]
    return PodState(
        name=str(description["ClusterName"]),
        arn=str(description["ClusterArn"]),
        status=str(description["ClusterStatus"]),
        node_recovery=description.get("NodeRecovery"),
        subnets=tuple(network.get("Subnets", ())),
        security_groups=tuple(network.get("SecurityGroupIds", ())),
        groups={group.name: group for group in groups},
        eks_arn=description.get("Orchestrator", {}).get("Eks", {}).get("ClusterArn"),
    )


def eks_cluster(session: Session, name: str) -> str | None:
    """The EKS cluster that runs the jobs of a HyperPod cluster; None if the HyperPod cluster does not exist."""
    subject = f"describe HyperPod cluster {name}"
    description = unless_absent(session.client("sagemaker").describe_cluster, subject, _NO_CLUSTER, ClusterName=name)
    arn = None if description is None else description.get("Orchestrator", {}).get("Eks", {}).get("ClusterArn")
    return None if arn is None else str(arn).rpartition("/")[2]


def _group(description: Mapping[str, Any]) -> GroupState:
    slurm = description.get("SlurmConfig", {})
    return GroupState(
        name=str(description["InstanceGroupName"]),
        instance_type=str(description.get("InstanceType", "")),
        current=int(description.get("CurrentCount", 0)),
        desired=int(description.get("TargetCount", 0)),
        status=str(description.get("Status", "")),
        node_type=slurm.get("NodeType"),
        partitions=tuple(slurm.get("PartitionNames", ())),
        health_checks=tuple(description.get("OnStartDeepHealthChecks", ())),
        training_plan_arn=description.get("TrainingPlanArn"),
        spot="Spot" in description.get("CapacityRequirements", {}),
    )


def resize(session: Session, cluster: str, groups: Sequence[Mapping[str, Any]]) -> None:
    """Set the size of instance groups, which have the form of UpdateCluster.

    Raises:
        AwsError: the cluster does not exist, or the call failed.
    """
    with translate_errors(f"start the workers of {cluster}"):
        session.client("sagemaker").update_cluster(ClusterName=cluster, InstanceGroups=list(groups))


def start(session: Session, cluster: str, group: str, count: int) -> bool:
    """Let a group create its instances again after a guard has deleted them; return whether this was necessary.

    Raises:
        AwsError: the cluster or group does not exist, or a call failed.
    """
    state = describe_cluster(session, cluster).groups.get(group)
    missing = 0 if state is None else count - state.desired
    if missing <= 0:
        return False
    with translate_errors(f"start the {group} of HyperPod cluster {cluster}"):
        client = session.client("sagemaker")
        for done in range(0, missing, ADDED_A_CALL):
            more = {"InstanceGroupName": group, "IncrementTargetCountBy": min(ADDED_A_CALL, missing - done)}
            answer = client.batch_add_cluster_nodes(ClusterName=cluster, NodesToAdd=[more])
            for failure in answer.get("Failed", ()):
                raise AwsError(f"{cluster}: {failure.get('Message') or failure.get('ErrorCode')}")
    return True


def instances(session: Session, cluster: str, group: str) -> tuple[str, ...]:
    """The ids of a group's existing instances."""
    call, subject = session.client("sagemaker").list_cluster_nodes, f"list the {group} of HyperPod cluster {cluster}"
    return tuple(
        str(summary["InstanceId"])
        for summary in items(call, subject, _NODES, ClusterName=cluster, InstanceGroupNameContains=group)
        if summary["InstanceGroupName"] == group and summary["InstanceStatus"]["Status"] == "Running"
    )


def nodes(session: Session, cluster: str) -> tuple[NodeInstance, ...]:
    """The instances of a cluster, in any state."""
    call, subject = session.client("sagemaker").list_cluster_nodes, f"list the instances of HyperPod cluster {cluster}"
    return tuple(
        NodeInstance(
            id=str(summary["InstanceId"]),
            names=frozenset(
                filter(None, (summary["InstanceId"], summary.get("PrivateDnsHostname", "").partition(".")[0]))
            ),
            group=str(summary["InstanceGroupName"]),
            instance_type=str(summary["InstanceType"]).removeprefix("ml."),
            launched_at=summary["LaunchTime"],
            state=str(summary["InstanceStatus"]["Status"]),
            message=str(summary["InstanceStatus"].get("Message") or ""),
        )
        for summary in items(call, subject, _NODES, ClusterName=cluster)
    )


def reboot(session: Session, cluster: str, instance: str) -> None:
    """Reboot an instance, through EC2's RebootInstances in SageMaker's account.

    Raises:
        AwsError: SageMaker does not reboot it.
    """
    with translate_errors(f"reboot {instance} of HyperPod cluster {cluster}"):
        answer = session.client("sagemaker").batch_reboot_cluster_nodes(ClusterName=cluster, NodeIds=[instance])
    _refuse_failures(cluster, answer)


def replace(session: Session, cluster: str, instance: str) -> None:
    """End an instance with its disks, and start another one in its place.

    Raises:
        AwsError: SageMaker does not replace it.
    """
    with translate_errors(f"replace {instance} of HyperPod cluster {cluster}"):
        answer = session.client("sagemaker").batch_replace_cluster_nodes(ClusterName=cluster, NodeIds=[instance])
    _refuse_failures(cluster, answer)


def check(session: Session, cluster: str, *, group: str, instance: str) -> None:
    """Start the deep health checks of one instance; those between instances need two.

    Raises:
        AwsError: SageMaker does not check it.
    """
    checks = {"InstanceGroupName": group, "InstanceIds": [instance], "DeepHealthChecks": ["InstanceStress"]}
    with translate_errors(f"check {instance} of HyperPod cluster {cluster}"):
        session.client("sagemaker").start_cluster_health_check(
            ClusterName=cluster, DeepHealthCheckConfigurations=[checks]
        )


def _refuse_failures(cluster: str, answer: Mapping[str, Any]) -> None:
    for failure in answer.get("Failed", ()):
        raise AwsError(f"{cluster}: {failure['NodeId']}: {failure['ErrorCode']}: {failure['Message']}")


def instance_counts(session: Session, cluster: str) -> Mapping[str, int]:
    """The number of instances of each SageMaker type in a cluster, in any state; empty if the cluster is missing."""
    call, subject = session.client("sagemaker").list_cluster_nodes, f"list the instances of HyperPod cluster {cluster}"
    try:
        return Counter(str(summary["InstanceType"]) for summary in items(call, subject, _NODES, ClusterName=cluster))
    except AwsError as problem:
        if error_code(problem) == "ResourceNotFound":
            return {}
        raise


def instances_of(session: Session, outputs: Mapping[str, str]) -> Mapping[str, int]:
    """The same numbers, from the outputs of the cluster's stack."""
    return instance_counts(session, outputs["ClusterName"])
