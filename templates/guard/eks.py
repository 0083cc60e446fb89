# ruff: noqa: INP001 - one file that is shipped as it is; the folder is the function's code
"""The guard of an EKS cluster: its jobs' machines are one managed node group, and stopping it is setting it to none.

Whether they are idle is read from EC2's own metrics, as of a ParallelCluster's: what runs in pods is nobody's business.
"""

import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import boto3
from guard import Guard, Node, Settings, respond

WORKERS = "workers"
"""The node group that runs jobs; the system's own machine stays."""


def handler(event: Mapping[str, Any], _context: object) -> None:
    """What Lambda calls."""
    respond(EksGuard(Settings.of(os.environ), boto3.client, datetime.now(UTC)), event)


class EksGuard(Guard):
    """One call of the guard of an EKS cluster, at the moment `now`."""

    def __init__(self, settings: Settings, client: Callable[[str], Any], now: datetime) -> None:
        """Use `client(service)` to reach AWS."""
        super().__init__(settings, client, now)
        self.eks = client("eks")

    def nodes(self) -> list[Node]:
        """The machines of the jobs, as EC2 describes them; EKS tags them with cluster and group."""
        filters = [
            {"Name": "tag:eks:cluster-name", "Values": [self.settings.name]},
            {"Name": "tag:eks:nodegroup-name", "Values": [WORKERS]},
            {"Name": "instance-state-name", "Values": ["running"]},
        ]
        pages = self.ec2.get_paginator("describe_instances").paginate(Filters=filters)
        return [node for page in pages for group in page["Reservations"] for node in group["Instances"]]

    def is_own(self, tags: Mapping[str, str]) -> bool:
        """Whether an instance with these tags is the cluster's."""
        return tags.get("eks:cluster-name") == self.settings.name

    def stop(self, reason: str, count: int) -> None:
        """Set the group to no nodes, once; pods on them are told, and wait as Pending for new ones."""
        name = self.settings.name
        try:
            group = self.eks.describe_nodegroup(clusterName=name, nodegroupName=WORKERS)["nodegroup"]
        except self.eks.exceptions.ResourceNotFoundException:
            print(f"no nodes to stop: {name} has no group {WORKERS} yet, or no longer")  # noqa: T201 - the log
            return
        sizes = group["scalingConfig"]
        if sizes["desiredSize"] == 0 or group["status"] != "ACTIVE":
            return
        self.eks.update_nodegroup_config(
            clusterName=name, nodegroupName=WORKERS, scalingConfig={"minSize": 0, "desiredSize": 0}
        )
        self.tell(
            "nodes stopped",
            f"{reason}. Its {count} nodes are being stopped; jobs wait as Pending.\n"
            f"Make them again: aws eks update-nodegroup-config --cluster-name {name} --nodegroup-name {WORKERS}"
            f" --region {self.settings.region} --scaling-config desiredSize={sizes['maxSize']}\n"
            f"Control plane, system node and network cost on: slipway down {self.settings.cluster}",
        )
