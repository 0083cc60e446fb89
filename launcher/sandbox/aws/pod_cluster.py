"""A HyperPod cluster in moto's SageMaker: its request, its instances, and those that failed to start.

Judged by: botocore 1.44.5 (sagemaker/2017-07-24 service-2.json). moto's own CreateCluster is not used: it lacks the
newer types and properties, and accepts scripts only from buckets of one name.
"""

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from moto.sagemaker.models import ClusterNode

from launcher.model.hyperpod import CHECKING
from launcher.sandbox.cluster.hyperpod_request import CONTINUOUS

IN_SERVICE = "InService"
RUNNING, FAILURE, PENDING = "Running", "Failure", "Pending"
"""States of an instance (botocore 1.44.5, sagemaker, ClusterInstanceStatus)."""
CHECKED_ON_START_S, CHECKED_ON_DEMAND_S = 10.0, 60.0
"""Seconds of an instance's deep health checks; on AWS both take 53 to 112 minutes (launcher/model/hyperpod.py)."""
_SHOWN = ("VpcConfig", "Orchestrator", "NodeRecovery", "NodeProvisioningMode")
"""Members that DescribeCluster returns as CreateCluster received them."""


@dataclass(slots=True, kw_only=True)
class EmulatedPodCluster:
    """A cluster in moto's SageMaker, whose API expects these attribute names."""

    request: dict[str, Any]
    region_name: str
    account_id: str
    cluster_id: str
    tags: list[dict[str, str]]
    creation_time: datetime
    nodes: dict[str, ClusterNode] = field(default_factory=dict)
    # Instances that have started and that no node of Slurm has yet, by group.
    ready: dict[str, list[str]] = field(default_factory=dict)
    # With continuous provisioning: the group of each node without an instance, by the node's logical id.
    waiting: dict[str, str] = field(default_factory=dict)
    # SageMaker's events of instances that failed to start.
    failed_starts: list[dict[str, Any]] = field(default_factory=list)
    # When the deep health checks of an instance end, by its id.
    checked_until: dict[str, datetime] = field(default_factory=dict)
    # The instances of the newest on-demand check.
    checked_on_demand: tuple[str, ...] = ()
    # SageMaker's reason for the newest instance that failed to start and stays.
    failure: str = ""

    @property
    def cluster_name(self) -> str:
        """The name of the cluster."""
        return str(self.request["ClusterName"])

    @property
    def arn(self) -> str:
        """The ARN of the cluster, which ends in an id and not in the name."""
        return f"arn:aws:sagemaker:{self.region_name}:{self.account_id}:cluster/{self.cluster_id}"

    @property
    def continuous(self) -> bool:
        """Whether SageMaker replaces instances that fail to start."""
        return bool(self.request.get("NodeProvisioningMode") == CONTINUOUS)

    def summary(self) -> dict[str, Any]:
        """The cluster as ListClusters returns it."""
        return {
            "ClusterArn": self.arn,
            "ClusterName": self.cluster_name,
            "CreationTime": self.creation_time,
            "ClusterStatus": IN_SERVICE,
        }

    def describe(self) -> dict[str, Any]:
        """The cluster as DescribeCluster returns it."""
        groups = [self._describe_group(group) for group in self.request["InstanceGroups"]]
        shown = {key: self.request[key] for key in _SHOWN if key in self.request}
        return {**self.summary(), **shown, "FailureMessage": self.failure, "InstanceGroups": groups}

    def _describe_group(self, group: Mapping[str, Any]) -> dict[str, Any]:
        running = len(self.instances(group["InstanceGroupName"]))
        fields = {key: value for key, value in group.items() if key != "InstanceCount"}
        return {**fields, "CurrentCount": running, "TargetCount": group["InstanceCount"], "Status": IN_SERVICE}

    def list_nodes(
        self, nodes: Iterable[ClusterNode], *, group_part: str, with_logical_ids: bool
    ) -> list[dict[str, Any]]:
        """Nodes as ListClusterNodes returns them; with logical ids also those that have no instance yet."""
        summaries = [
            {**node.summary(), "InstanceStatus": {"Status": self.state(node), "Message": self.message(node)}}
            for node in nodes
        ]
        if not with_logical_ids:
            return summaries
        # An instance that is tried is listed as the node that waits for it.
        summaries = [summary for summary in summaries if summary["InstanceStatus"]["Status"] != PENDING]
        waiting = [
            {
                "InstanceGroupName": group,
                "InstanceId": "",
                "NodeLogicalId": logical_id,
                "InstanceType": self.groups[group]["InstanceType"],
                "LaunchTime": datetime.now(UTC),
                "InstanceStatus": {"Status": PENDING, "Message": ""},
            }
            for logical_id, group in self.waiting.items()
            if group_part in group
        ]
        return [{**summary, "NodeLogicalId": summary["InstanceId"]} for summary in summaries] + waiting

    def message(self, node: ClusterNode) -> str:
        """SageMaker's message on a node's state."""
        return self.failure if node.status == FAILURE else ""

    def state(self, node: ClusterNode) -> str:
        """SageMaker's word for an instance's state."""
        return CHECKING if node.instance_id in self.checking() else str(node.status)

    def checking(self) -> list[str]:
        """The ids of the instances whose deep health checks run."""
        now = datetime.now(UTC)
        return [id_ for id_, end in self.checked_until.items() if id_ in self.nodes and now < end]

    def check(self, ids: Iterable[str], seconds: float) -> None:
        """Begin the deep health checks of instances."""
        self.checked_until |= dict.fromkeys(ids, datetime.now(UTC) + timedelta(seconds=seconds))

    def check_on_start(self, ids: Iterable[str]) -> None:
        """Begin the deep health checks of new instances whose groups have them."""
        groups = self.groups
        checked = [id_ for id_ in ids if groups[self.nodes[id_].instance_group_name].get("OnStartDeepHealthChecks")]
        self.check(checked, CHECKED_ON_START_S)

    @property
    def groups(self) -> dict[str, dict[str, Any]]:
        """The requested groups of the cluster, by name."""
        return {group["InstanceGroupName"]: group for group in self.request["InstanceGroups"]}

    def instances(self, group_name: str) -> list[str]:
        """The ids of a group's running instances."""
        return [
            id_ for id_, node in self.nodes.items() if node.instance_group_name == group_name and node.status == RUNNING
        ]

    def add(self, group_name: str, *, tried: bool = False) -> str:
        """Add an instance to a group; return its id. It is pending if it is `tried` for a node that waits for one."""
        group = self.groups[group_name]
        instance_id = f"i-{secrets.token_hex(9)[:17]}"
        node = ClusterNode(
            region_name=self.region_name,
            account_id=self.account_id,
            cluster_name=self.cluster_name,
            instance_group_name=group_name,
            instance_type=group["InstanceType"],
            life_cycle_config=group["LifeCycleConfig"],
            execution_role=group["ExecutionRole"],
            node_id=instance_id,
            threads_per_core=group.get("ThreadsPerCore"),
        )
        node.status = PENDING if tried else node.status
        self.nodes[instance_id] = node
        return instance_id
