# ruff: noqa: INP001 - one file that is shipped as it is; the folder is the function's code
"""The guard of a HyperPod cluster with Slurm: its differences from a ParallelCluster's guard.

Its instances run in SageMaker's own account: EC2 shows neither the instances nor their metrics, and Slurm cannot stop
them. They are idle if the controller reports an empty queue (on_create.sh), and a stop deletes them.
"""

import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from boots import IN_A_ROW, record_verdict
from botocore.exceptions import ClientError
from failures import RefusedError
from guard import AFTER_SLURM, WARNING, Guard, Node, Settings, aws, its, respond
from idleness import SAMPLE
from job_messages import Folder, plain
from schedule import EVERY, nodes_namespace

WORKERS = "workers"
"""The instance group that runs jobs; controller and login nodes are never stopped."""
BILLED = {"Running", "SystemUpdating", "DeepHealthCheckInProgress"}
"""States of an instance that is billed."""
FAILURE = "Failure"
NAMED = 5
"""Failed workers that a notification names."""
GOING = {"ShuttingDown", "NotFound"}
"""States (botocore 1.43, sagemaker, ClusterInstanceStatus) of an instance that needs no stop."""
QUEUED = "QueuedJobs"
"""Jobs in Slurm's queue, running and waiting, as the controller reports them every minute."""
SILENT = timedelta(hours=1)
"""After this time without a report of the queue, users are notified: the guard then stops no idle workers."""
NODES_A_CALL = 50
"""Nodes per BatchDeleteClusterNodes: the lowest of the limits in AWS's pages (50, 99, 3,000), on 2026-11-20."""


def handler(event: Mapping[str, Any], context: Any) -> None:
    """The Lambda handler."""
    respond(HyperPodGuard(Settings.of(os.environ), aws, datetime.now(UTC)), event, context)


class HyperPodGuard(Guard):
    """One call of the guard of a HyperPod cluster, at the time `now`."""

    prepaid = "the nodes of a training plan are left"
    waits = "jobs return to the queue and wait"
    costs_on = "Controller, file system and network"
    queued = QUEUED
    """The metric for the number of jobs in the queue."""

    def __init__(self, settings: Settings, client: Callable[[str], Any], now: datetime) -> None:
        """Use `client(service)` to reach AWS."""
        super().__init__(settings, client, now)
        self.sagemaker = client("sagemaker")
        self.listed: list[Node] = []

    @property
    def queue_namespace(self) -> str:
        """The namespace of the queue's metric: the controller reports it."""
        return nodes_namespace(self.settings.cluster)

    def nodes(self) -> list[Node]:
        """The workers that are billed."""
        self.listed = self.workers()
        return [node for node in self.listed if node["InstanceStatus"]["Status"] in BILLED]

    def workers(self) -> list[Node]:
        """All workers, as SageMaker lists them; empty if the cluster does not exist yet, or no longer."""
        pages = self.sagemaker.get_paginator("list_cluster_nodes").paginate(
            ClusterName=self.settings.name, InstanceGroupNameContains=WORKERS
        )
        try:
            listed = [node for page in pages for node in page["ClusterNodeSummaries"]]
        except self.sagemaker.exceptions.ResourceNotFound:
            return []
        return [node for node in listed if node["InstanceGroupName"] == WORKERS]

    def watch_boots(self, folder: Folder, began: datetime, count: int | None) -> None:  # noqa: ARG002
        """Name workers that failed to start, with SageMaker's reason; if none runs, stop them after three."""
        failed = {
            node["InstanceId"]: node["InstanceStatus"].get("Message") or "SageMaker gives no reason"
            for node in self.listed
            if node["InstanceStatus"]["Status"] == FAILURE
        }
        lines = [f"{node}: {plain(reason)}" for node, reason in sorted(failed.items())]
        if not failed:
            return
        words = (
            f"{its(len(failed), 'workers')} failed to start; each try is billed:\n  "
            + "\n  ".join(lines[:NAMED])
            + f"\nLogs of their scripts: the log group /aws/sagemaker/Clusters/{self.settings.name}/..."
        )
        if len(failed) >= IN_A_ROW and not count and not self.settings.prepaid:
            record_verdict(folder, self.now, words)
            self.end(words, count)
        elif self.first(f"boots {sorted(failed)}"):
            self.notify("workers failed to start", words)

    def watch_time(self, began: datetime, count: int | None) -> None:
        """As in `Guard`, and notify before SageMaker reclaims a training plan's instances."""
        super().watch_time(began, count)
        ends = self.settings.ends
        if ends is not None and ends - WARNING <= self.now < ends - WARNING + EVERY:
            self.notify("training plan ends", f"HyperPod reclaims its instances from {ends:%Y-%m-%d %H:%M} UTC")

    def all_idle(self, nodes: list[Node]) -> bool:
        """Whether no job was in the queue for the idle time, if one is set.

        False while the controller is silent or a node is too new to judge.

        Raises:
            ClientError: CloudWatch does not respond.
            RefusedError: the controller has been silent for an hour.
        """
        if not self.settings.idle:
            return False
        window = self.settings.idle + AFTER_SLURM
        if not nodes or any(self.now - node["LaunchTime"] < window for node in nodes):
            return False
        answer = self.cloudwatch.get_metric_statistics(
            Namespace=self.queue_namespace,
            MetricName=self.queued,
            Dimensions=[{"Name": "Cluster", "Value": self.settings.cluster}],
            StartTime=self.now - max(window, SILENT),
            EndTime=self.now,
            Period=int(SAMPLE.total_seconds()),
            Statistics=["Maximum"],
        )
        most = [datapoint["Maximum"] for datapoint in answer["Datapoints"]]
        if not most and self.queued == QUEUED and all(self.now - node["LaunchTime"] >= SILENT for node in nodes):
            raise RefusedError("its controller has not reported its queue for an hour: idle workers are not stopped")
        late = [
            datapoint["Maximum"] for datapoint in answer["Datapoints"] if datapoint["Timestamp"] >= self.now - window
        ]
        # The newest values come late.
        return len(late) >= window // SAMPLE - 2 and max(late) == 0

    def stop(self, reason: str, count: int | None) -> None:  # noqa: ARG002 - it lists them itself
        """Delete the workers, the only possible stop; new ones start when the group is enlarged again.

        Raises:
            ClientError: SageMaker does not list the workers, or refuses all deletions.
            RefusedError: SageMaker refuses some deletions.
        """
        running = [node["InstanceId"] for node in self.workers() if node["InstanceStatus"]["Status"] not in GOING]
        if not running:
            return
        stay: dict[str, list[str]] = {}
        problem: ClientError | None = None
        for start in range(0, len(running), NODES_A_CALL):
            ids = running[start : start + NODES_A_CALL]
            try:
                answer = self.sagemaker.batch_delete_cluster_nodes(ClusterName=self.settings.name, NodeIds=ids)
            except ClientError as refusal:
                problem = refusal
                stay.setdefault(str(refusal), []).extend(ids)
            else:
                for failure in answer.get("Failed", []):
                    stay.setdefault(failure["Message"], []).append(failure["NodeId"])
        deleted = len(running) - sum(map(len, stay.values()))
        if deleted:
            self.notify(
                "workers stopped",
                f"{reason}. {its(deleted, 'workers').capitalize()} are being deleted; {self.waits}.\n"
                f"Start them again: the command in the stack's output StartFleet\n"
                f"{self.costs_on} are still billed: slipway down {self.settings.cluster}",
            )
        if problem is not None and not deleted:
            raise problem
        if stay:
            raise RefusedError("; ".join(f"{', '.join(nodes)}: {why}" for why, nodes in stay.items()))
