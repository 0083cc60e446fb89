# ruff: noqa: INP001 - one file that is shipped as it is; the folder is the function's code
"""The guard of a HyperPod cluster with Slurm: its differences from a ParallelCluster's guard.

Its instances run in SageMaker's own account: EC2 shows neither the instances nor their metrics, and Slurm cannot stop
them. They are idle if the controller reports an empty queue (on_create.sh), and a stop deletes them.
"""

import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from boots import IN_A_ROW
from botocore.exceptions import ClientError
from failures import RefusedError
from guard import AFTER_SLURM, WARNING, Guard, Node, Settings, aws, its, respond
from hyperpod_boots import NAMED, FailedStart, failed_starts, last_lines, reasons, replaced_starts
from idleness import SAMPLE
from job_messages import Beat, Folder
from schedule import EVERY, nodes_namespace

WORKERS = "workers"
"""The instance group that runs jobs; controller and login nodes are never stopped."""
BILLED = {"Running", "SystemUpdating", "DeepHealthCheckInProgress"}
"""States of an instance that is billed."""
GOING = {"ShuttingDown", "NotFound"}
"""States (botocore 1.43, sagemaker, ClusterInstanceStatus) of an instance that needs no stop."""
QUEUED = "QueuedJobs"
"""Jobs in Slurm's queue, running and waiting, as the controller reports them every minute."""
SILENT = timedelta(hours=1)
"""After this time without a report of the queue, users are notified: the guard then stops no idle workers."""
UNBACKED = 2 * EVERY
"""How long heartbeats must contradict an empty queue: a job that has just begun is in the next report of the queue."""
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
        # Whether SageMaker replaces workers that fail to start (NodeProvisioningMode), without end.
        self.continuous = os.environ.get("CONTINUOUS") == "true"
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
        """All workers, as SageMaker lists them; empty if the cluster does not exist yet, or no longer.

        With continuous provisioning also those that it is still trying to start, without an `InstanceId`.
        """
        more = {"IncludeNodeLogicalIds": True} if self.continuous else {}
        pages = self.sagemaker.get_paginator("list_cluster_nodes").paginate(
            ClusterName=self.settings.name, InstanceGroupNameContains=WORKERS, **more
        )
        try:
            nodes = [node for page in pages for node in page["ClusterNodeSummaries"]]
        except self.sagemaker.exceptions.ResourceNotFound:
            return []
        return [node for node in nodes if node["InstanceGroupName"] == WORKERS]

    def watch_boots(self, folder: Folder, began: datetime, count: int | None) -> None:
        """Name workers that fail to start, with SageMaker's reason; after three in a row, delete all workers."""
        handled = None if self.state is None else self.state.boots_until
        failed = failed_starts(self.listed)
        # Beside running workers a listed one stays for users to see: SageMaker starts no other in its place.
        stops = len(failed) >= IN_A_ROW and not count
        if self.continuous and self.listed:
            row = replaced_starts(self.sagemaker, self.settings.name, WORKERS, self.now, max(began, handled or began))
            stops = len(row) >= IN_A_ROW
            failed = row or failed
        if not failed:
            return
        words = self.words_of(failed)
        if stops and not self.settings.prepaid:
            self.record_stop(folder, words, jobs_wait=False)
            failures = len(self.failures)
            self.end(words, count)
            if self.state is not None and len(self.failures) == failures:
                self.state.boots_until = self.now
                self.store()
        elif self.first("many boots" if stops else f"boots {sorted(start.node for start in failed)}"):
            self.notify("workers failed to start", words)

    def words_of(self, failed: list[FailedStart]) -> str:
        """What happened, with the last lines of the newest worker's scripts."""
        newest = max(failed, key=lambda start: start.at)
        lines = self.attempt("read the log of its workers", lambda: self.lines_of(newest.node))
        return "\n  ".join(
            (
                f"{len(failed)} {'workers' if len(failed) > 1 else 'worker'} failed to start; each try is billed:",
                *reasons(failed)[:NAMED],
                f"The last lines of the scripts of {newest.node}:",
                *(["  (the guard could not read the log)"] if lines is None else lines),
            )
        )

    def lines_of(self, node: str) -> list[str]:
        """The last lines of a worker's scripts, and the command that shows all of them.

        Raises:
            ClientError: SageMaker or CloudWatch does not respond.
        """
        name = self.settings.name
        cluster_id = self.sagemaker.describe_cluster(ClusterName=name)["ClusterArn"].rpartition("/")[2]
        group, stream = f"/aws/sagemaker/Clusters/{name}/{cluster_id}", f"LifecycleConfig/{WORKERS}/{node}"
        lines = last_lines(self.client("logs"), group, stream)
        return [
            *(f"  {line}" for line in lines or ["(the scripts wrote no line)"]),
            f"All lines: aws logs tail {group} --log-stream-names {stream} --since 1d --region {self.settings.region}",
        ]

    def watch_time(self, began: datetime, count: int | None) -> None:
        """As in `Guard`, and notify before SageMaker reclaims a training plan's instances."""
        super().watch_time(began, count)
        ends = self.settings.ends
        if ends is not None and ends - WARNING <= self.now < ends - WARNING + EVERY:
            self.notify("training plan ends", f"HyperPod reclaims its instances from {ends:%Y-%m-%d %H:%M} UTC")

    def with_others(self, nodes: list[Node], beats: list[Beat]) -> list[Beat]:
        """As in `Guard`; none if no job was in the queue for the idle time, at several checks in a row.

        Jobs write heartbeats into the store, jobs of other clusters too if the plan names it: without a job in the
        queue they are false or left over.
        """
        beats, state = super().with_others(nodes, beats), self.state
        if state is None:
            return beats
        empty = beats and self.attempt("compare heartbeats with its queue", lambda: self.unbacked(nodes))
        since = (state.unbacked_since or self.scheduled) if empty else None
        if since != state.unbacked_since:
            state.unbacked_since = since
            self.attempt("store its state", self.store)
        return beats if since is None or self.scheduled - since < UNBACKED else []

    def unbacked(self, nodes: list[Node]) -> bool:
        """Whether no job can have written the heartbeats."""
        return self.all_idle(nodes)

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
        late = {
            datapoint["Timestamp"]: datapoint["Maximum"]
            for datapoint in answer["Datapoints"]
            if datapoint["Timestamp"] >= self.now - window
        }
        # The newest values come late; without one of the last minutes a job may have begun since.
        if len(late) < max(1, window // SAMPLE - 2) or max(late) < self.now - 2 * SAMPLE:
            return False
        return max(late.values()) == 0

    def stop(self, reason: str, count: int | None) -> None:  # noqa: ARG002 - it lists them itself
        """Delete the workers, the only possible stop; new ones start when the group is enlarged again.

        Raises:
            ClientError: SageMaker does not list the workers, or refuses all deletions.
            RefusedError: SageMaker refuses some deletions.
        """
        running = [node for node in self.workers() if node["InstanceStatus"]["Status"] not in GOING]
        if not running:
            return
        stay: dict[str, list[str]] = {}
        problem: ClientError | None = None
        for start in range(0, len(running), NODES_A_CALL):
            nodes = running[start : start + NODES_A_CALL]
            started = [node["InstanceId"] for node in nodes if node.get("InstanceId")]
            # One that never started counts in the group's size: HyperPod would go on starting it.
            wanted = [node["NodeLogicalId"] for node in nodes if not node.get("InstanceId")]
            ids = {key: value for key, value in (("NodeIds", started), ("NodeLogicalIds", wanted)) if value}
            try:
                answer = self.sagemaker.batch_delete_cluster_nodes(ClusterName=self.settings.name, **ids)
            except ClientError as refusal:
                problem = refusal
                stay.setdefault(str(refusal), []).extend(started + wanted)
            else:
                for failure in answer.get("Failed", []):
                    stay.setdefault(failure["Message"], []).append(failure["NodeId"])
                for failure in answer.get("FailedNodeLogicalIds", []):
                    stay.setdefault(failure["Message"], []).append(failure["NodeLogicalId"])
        deleted = len(running) - sum(map(len, stay.values()))
        if deleted:
            self.notify_of_stop(
                "workers stopped",
                reason,
                f"{its(deleted, 'workers', 'are').capitalize()} being deleted; {self.waits}.\n"
                f"Start them again: the command in the stack's output StartFleet\n"
                f"{self.costs_on} are still billed: slipway down {self.settings.cluster}",
            )
        if problem is not None and not deleted:
            raise problem
        if stay:
            raise RefusedError("; ".join(f"{', '.join(nodes)}: {why}" for why, nodes in stay.items()))
