# ruff: noqa: INP001 - one file that is shipped as it is; the folder is the function's code
"""The guard of a PCS cluster: a stop sets its node groups to zero; the login node is never stopped.

EC2's own metrics show whether nodes are idle, as for ParallelCluster. PCS's Slurm ends idle nodes first.
"""

import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from guard import Guard, Settings, aws, its, respond

LOGIN = "login"
"""The node group without a queue."""
GOING = {"DELETING", "DELETED"}
"""States (botocore 1.44, pcs, ComputeNodeGroupStatus) in which PCS itself ends a group's instances. A group that is
UPDATING refuses the call; the guard sends a notification and retries at the next check."""


def handler(event: Mapping[str, Any], context: Any) -> None:
    """The Lambda handler."""
    respond(PcsGuard(Settings.of(os.environ), aws, datetime.now(UTC)), event, context)


class PcsGuard(Guard):
    """One call of the guard of a PCS cluster, at the time `now`."""

    own_templates = True
    stopped = "its node groups have been"
    why_nodes_stay = ""

    def __init__(self, settings: Settings, client: Callable[[str], Any], now: datetime) -> None:
        """Use `client(service)` to reach AWS."""
        super().__init__(settings, client, now)
        self.pcs = client("pcs")

    def groups(self) -> list[Mapping[str, Any]]:
        """The node groups of jobs; empty if the cluster does not exist yet, or no longer."""
        name = self.settings.name
        try:
            pages = self.pcs.get_paginator("list_compute_node_groups").paginate(clusterIdentifier=name)
            ids = [group["id"] for page in pages for group in page["computeNodeGroups"] if group["name"] != LOGIN]
            answers = [
                self.pcs.get_compute_node_group(clusterIdentifier=name, computeNodeGroupIdentifier=id_) for id_ in ids
            ]
        except self.pcs.exceptions.ResourceNotFoundException:
            return []
        return [group["computeNodeGroup"] for group in answers]

    def stop(self, reason: str, count: int | None) -> None:
        """Set the groups to zero instances, once; the guard later terminates remaining instances by their tags.

        Raises:
            ClientError: PCS refuses.
        """
        groups = self.groups()
        started = [
            group
            for group in groups
            if group["scalingConfiguration"]["maxInstanceCount"] and group["status"] not in GOING
        ]
        if not started:
            self.end_remaining("set to zero", max((group["modifiedAt"] for group in groups), default=None))
            return
        for group in started:
            self.pcs.update_compute_node_group(
                clusterIdentifier=self.settings.name,
                computeNodeGroupIdentifier=group["id"],
                scalingConfiguration={"minInstanceCount": 0, "maxInstanceCount": 0},
            )
        self.notify_of_stop(
            "nodes stopped",
            reason,
            f"{its(count, 'nodes', 'are').capitalize()} being stopped; jobs return to the queue and wait.\n"
            "Start them again: the command in the stack's output StartFleet\n"
            f"Controller, login node, file system and network are still billed: slipway down {self.settings.cluster}",
        )
