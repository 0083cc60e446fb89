"""The instances of a cluster as EC2 describes them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from launcher.aws.calls import items
from launcher.aws.session import Session

PARALLELCLUSTER_TAG = "parallelcluster:cluster-name"
NODE_TAG = "parallelcluster:node-type"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningInstance:
    """A starting or running instance. `lifecycle` is "spot", "capacity-block" or "", `reservation` an id or ""."""

    instance_type: str
    lifecycle: str
    reservation: str
    tags: Mapping[str, str]


def of_cluster(
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
            instance_type=str(instance["InstanceType"]),
            lifecycle=str(instance.get("InstanceLifecycle", "")),
            reservation=str(instance.get("CapacityReservationId", "")),
            tags={tag["Key"]: tag["Value"] for tag in instance.get("Tags", ())},
        )
        for reservation in items(call, subject, "Reservations", Filters=filters)
        for instance in reservation["Instances"]
    )


def counted(session: Session, tag: str, cluster: str) -> Mapping[str, int]:
    """The number of starting and running instances of each type in a cluster, by the tag of the cluster's service."""
    return Counter(instance.instance_type for instance in of_cluster(session, tag, cluster))


def running(session: Session, cluster: str, kinds: Sequence[str] = ()) -> Mapping[str, int]:
    """The number of starting and running instances of each type in a ParallelCluster, with head and login nodes.

    `kinds`: any of "Compute", "HeadNode" and "LoginNode"; empty means all.
    """
    more = [{"Name": f"tag:{NODE_TAG}", "Values": list(kinds)}] if kinds else []
    return Counter(instance.instance_type for instance in of_cluster(session, PARALLELCLUSTER_TAG, cluster, more))
