# ruff: noqa: INP001 - one file that is shipped as it is; the folder is the function's code
"""The guard of a PCS cluster: a stop sets its node groups to zero.

The login node is stopped only if it does not boot: PCS replaces it without end, and each try is billed.

EC2's own metrics show whether nodes are idle, as for ParallelCluster. PCS's Slurm ends idle nodes first.
"""

import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from boots import ENDED, IN_A_ROW, LOGIN_BOOTS, Boot, failed_boots, is_boot_of
from guard import Guard, Settings, aws, its, respond
from job_messages import Folder

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

    def groups(self, *, login: bool = False) -> list[Mapping[str, Any]]:
        """The node groups of jobs, or that of the login node; empty if the cluster does not exist."""
        name = self.settings.name
        try:
            pages = self.pcs.get_paginator("list_compute_node_groups").paginate(clusterIdentifier=name)
            ids = [
                group["id"]
                for page in pages
                for group in page["computeNodeGroups"]
                if (group["name"] == LOGIN) == login
            ]
            answers = [
                self.pcs.get_compute_node_group(clusterIdentifier=name, computeNodeGroupIdentifier=id_) for id_ in ids
            ]
        except self.pcs.exceptions.ResourceNotFoundException:
            return []
        return [group["computeNodeGroup"] for group in answers]

    def watch_boots(self, folder: Folder, began: datetime, count: int | None) -> None:
        """As in `Guard`; also stop a login node that does not boot."""
        self.attempt("check for failed boots of the login node", lambda: self.watch_login(folder, began))
        super().watch_boots(folder, began, count)

    def watch_login(self, folder: Folder, began: datetime) -> None:
        """Set the login node's group to zero after three failed boots in a row, and notify users.

        Raises:
            ClientError: the store, EC2 or PCS does not respond.
        """
        failed = failed_boots(folder, self.now, began, IN_A_ROW, self.confirmed_logins, place=LOGIN_BOOTS)
        group = next(iter(self.groups(login=True)), None) if failed is not None else None
        if failed is None or group is None or group["status"] in GOING:
            return
        # A change of the group starts a new row: boots before it are handled.
        counted = sum(boot.at > group["modifiedAt"] for boot in failed.boots)
        if counted < IN_A_ROW or not group["scalingConfiguration"]["maxInstanceCount"]:
            return
        self.record_stop(folder, failed.words, jobs_wait=True)
        sizes = group["scalingConfiguration"]
        self.set_to_zero(group)
        self.notify(
            "login node stopped",
            f"{failed.words}\nIts group has been set to zero. Start it again: slipway launch, or aws pcs"
            f" update-compute-node-group --region {self.settings.region} --cluster-identifier {self.settings.name}"
            f" --compute-node-group-identifier {LOGIN} --scaling-configuration"
            f" minInstanceCount={sizes['minInstanceCount']},maxInstanceCount={sizes['maxInstanceCount']}",
        )

    def confirmed_logins(self, boots: list[Boot]) -> list[Boot]:
        """The failed boots of login nodes that EC2 lists as ended.

        Raises:
            ClientError: EC2 does not respond.
        """
        tags = {**self.node_tags, "slipway:machine": LOGIN}
        launched = {node["InstanceId"]: node["LaunchTime"] for node in self.instances(*ENDED, tags=tags)}
        return [boot for boot in boots if is_boot_of(boot, launched)]

    def set_to_zero(self, group: Mapping[str, Any]) -> None:
        """Set a group to zero instances.

        Raises:
            ClientError: PCS refuses.
        """
        self.pcs.update_compute_node_group(
            clusterIdentifier=self.settings.name,
            computeNodeGroupIdentifier=group["id"],
            scalingConfiguration={"minInstanceCount": 0, "maxInstanceCount": 0},
        )

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
            self.set_to_zero(group)
        self.notify_of_stop(
            "nodes stopped",
            reason,
            f"{its(count, 'nodes', 'are').capitalize()} being stopped; jobs return to the queue and wait.\n"
            "Start them again: the command in the stack's output StartFleet\n"
            f"Controller, login node, file system and network are still billed: slipway down {self.settings.cluster}",
        )
