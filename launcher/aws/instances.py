"""The instances of a cluster as EC2 describes them, their boot output, and how to reboot or end one."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from launcher.aws.calls import items
from launcher.aws.session import Session, error_code, translate_errors
from launcher.model.errors import AwsError

PARALLELCLUSTER_TAG = "parallelcluster:cluster-name"
NODE_TAG = "parallelcluster:node-type"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningInstance:
    """A starting or running instance."""

    id: str
    # Its first private address; may be empty.
    address: str
    # The first label of its private DNS name; may be empty.
    host: str
    launched_at: datetime
    instance_type: str
    # "spot", "capacity-block" or "".
    lifecycle: str
    # An id or "".
    reservation: str
    tags: Mapping[str, str]
    zone: str = ""


def cluster_instances(
    session: Session, tag: str, cluster: str, more: Sequence[Mapping[str, Any]] = ()
) -> tuple[RunningInstance, ...]:
    """The starting and running instances of a cluster."""
    filters = [
        {"Name": f"tag:{tag}", "Values": [cluster]},
        {"Name": "instance-state-name", "Values": ["pending", "running"]},
        *more,
    ]
    call, subject = session.client("ec2").describe_instances, f"describe the instances of {cluster}"
    return tuple(
        RunningInstance(
            id=str(instance["InstanceId"]),
            address=str(instance.get("PrivateIpAddress", "")),
            host=str(instance.get("PrivateDnsName", "")).partition(".")[0],
            launched_at=instance["LaunchTime"],
            instance_type=str(instance["InstanceType"]),
            lifecycle=str(instance.get("InstanceLifecycle", "")),
            reservation=str(instance.get("CapacityReservationId", "")),
            tags={tag["Key"]: tag["Value"] for tag in instance.get("Tags", ())},
            zone=str(instance.get("Placement", {}).get("AvailabilityZone", "")),
        )
        for reservation in items(call, subject, "Reservations", Filters=filters)
        for instance in reservation["Instances"]
    )


def oldest_first(ids: Iterable[str], started: Mapping[str, datetime]) -> tuple[str, ...]:
    """Instances by their launch time, then by their id: the order in which a job on plain instances ranks them."""
    return tuple(sorted(ids, key=lambda instance: (started.get(instance, datetime.max.replace(tzinfo=UTC)), instance)))


def count_instances(session: Session, tag: str, cluster: str) -> Mapping[str, int]:
    """The number of starting and running instances of each type in a cluster, by the tag of the cluster's service."""
    return Counter(instance.instance_type for instance in cluster_instances(session, tag, cluster))


def running(session: Session, cluster: str, kinds: Sequence[str] = ()) -> Mapping[str, int]:
    """The number of starting and running instances of each type in a ParallelCluster, with head and login nodes.

    `kinds`: any of "Compute", "HeadNode" and "LoginNode"; empty means all.
    """
    more = [{"Name": f"tag:{NODE_TAG}", "Values": list(kinds)}] if kinds else []
    return Counter(
        instance.instance_type for instance in cluster_instances(session, PARALLELCLUSTER_TAG, cluster, more)
    )


def console_output(session: Session, instance: str) -> str:
    """The newest 64 KiB of an instance's console output; empty if EC2 has none.

    Only instances on the Nitro System have the output of the moment; of others EC2 keeps the output of their boot.
    """
    call, subject = session.client("ec2").get_console_output, f"read the console output of {instance}"
    try:
        with translate_errors(subject):
            answer = call(InstanceId=instance, Latest=True)
    except AwsError as problem:
        if error_code(problem) != "UnsupportedOperation":
            raise
        with translate_errors(subject):
            answer = call(InstanceId=instance)
    return str(answer.get("Output") or "")


def reboot(session: Session, instance: str) -> None:
    """Reboot an instance: it keeps its disks, its addresses and its host."""
    with translate_errors(f"reboot {instance}"):
        session.client("ec2").reboot_instances(InstanceIds=[instance])


def terminate(session: Session, instance: str) -> None:
    """End an instance with its disks; what started it starts another one, if it keeps a number of instances."""
    with translate_errors(f"terminate {instance}"):
        session.client("ec2").terminate_instances(InstanceIds=[instance])
