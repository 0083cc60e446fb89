# ruff: noqa: INP001 - one file that is shipped as it is; the folder is the function's code
"""The guard of an EKS cluster: its jobs' nodes are one managed node group, and a stop sets that group to zero nodes.

EC2's own metrics show whether nodes are idle, as for ParallelCluster. Before the guard ends idle nodes, a function in
the cluster's network counts the pods that need them (pod_counts.py). These pods keep the nodes until they hang too.
"""

import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from guard import AFTER_SLURM, SETTLED, TIME_LIMIT, Guard, Node, Settings, aws, its, respond
from job_messages import Beat
from pod_counts import pods_of
from schedule import HOUR

WORKERS = "workers"
"""The node group that runs jobs; the system node is never stopped."""
DELETING = "DELETING"
"""The only status (botocore 1.43, eks, NodegroupStatus) in which EKS itself ends a group's nodes. A group that is
DEGRADED or CREATE_FAILED keeps the nodes that started and is scaled like any other (aws/containers-roadmap#2326). A
group that is UPDATING refuses the call; the guard sends a notification and retries at the next check."""


def handler(event: Mapping[str, Any], context: Any) -> None:
    """The Lambda handler."""
    settings = Settings.of(os.environ)
    counter, workers = os.environ["PODS_FUNCTION"], int(os.environ["WORKERS"])
    respond(EksGuard(settings, aws, datetime.now(UTC), counter=counter, workers=workers), event, context)


class EksGuard(Guard):
    """One call of the guard of an EKS cluster, at the time `now`."""

    slurm = False
    others = "in pods"
    failed_boots_end_nodes = False

    def __init__(
        self,
        settings: Settings,
        client: Callable[[str], Any],
        now: datetime,
        *,
        counter: str | None = None,
        workers: int = 0,
    ) -> None:
        """As in `Guard`; `counter` is the function that counts pods, if any; `workers` is the plan's node count."""
        super().__init__(settings, client, now)
        self.eks = client("eks")
        self.counter = counter
        self.wanted = workers
        # EKS replaces no node that has never joined the cluster: a smaller group makes fewer tries.
        self.boots_in_a_row = min(self.boots_in_a_row, max(workers, 1))

    def with_others(self, nodes: list[Node], beats: list[Beat]) -> list[Beat]:
        """As in `Guard`, plus heartbeats of pods: working, or hung if EC2's metrics show nothing for `hung_minutes`.

        The guard counts pods only if nodes might end because of the count.

        Raises:
            ClientError: CloudWatch does not respond, or the call of the function is denied.
            RefusedError: the function failed.
        """
        settings, at_work = self.settings, Beat("", 0.0)
        hung = settings.hung
        if self.counter is None:
            return beats
        if any(not hung or beat.still_s < hung.total_seconds() for beat in beats):
            # Jobs write heartbeats, and jobs of other clusters too if the plan names the store: without a pod they are
            # false or left over.
            return [] if self.attempt("compare heartbeats with its pods", lambda: self.unbacked(nodes)) else beats
        limits = [hung] if hung else []
        limits += [settings.idle + AFTER_SLURM] if settings.idle and not beats else []
        if not limits:
            return beats
        if not self.are_idle(nodes, min(limits)):
            # Without a job of Slipway's nothing is to be ended; with one that hangs, others may be at work.
            return [*beats, at_work] if not beats or self.pods(nodes)["others"] else beats
        if beats or not self.pods(nodes)["pods"]:
            return beats
        return [Beat("", hung.total_seconds()) if hung and self.are_idle(nodes, hung) else at_work]

    def unbacked(self, nodes: list[Node]) -> bool:
        """Whether no job can have written the heartbeats: EC2's metrics show idle nodes, and no pod needs them.

        The other pods of a job with a pod that cannot start do not count; they may write heartbeats.
        """
        if not self.all_idle(nodes):
            return False
        counts = self.pods(nodes)
        return not counts["pods"] and not counts["stuck"]

    def pods(self, nodes: list[Node]) -> Mapping[str, Any]:
        """The counts of pods that need the nodes."""
        hosts = [node["PrivateIpAddress"] for node in nodes if "PrivateIpAddress" in node]
        return pods_of(self, self.counter or "", whole=len(nodes) >= self.wanted, hosts=hosts)

    @property
    def node_tags(self) -> Mapping[str, str]:
        """The tags that EKS gives: the cluster, and the group of the jobs' nodes."""
        return {"eks:cluster-name": self.settings.name, "eks:nodegroup-name": WORKERS}

    def is_own(self, tags: Mapping[str, str]) -> bool:
        """Whether an instance with these tags belongs to the cluster."""
        return tags.get("eks:cluster-name") == self.settings.name

    def watch_time(self, began: datetime, count: int | None) -> None:
        """As in `Guard`, and stop the group after its Capacity Block: it would otherwise request nodes without end."""
        super().watch_time(began, count)
        reserved = self.settings.reserved
        if self.settings.prepaid and reserved is not None and reserved.ends and self.now >= reserved.ends + SETTLED:
            self.end("its Capacity Block is over", count, TIME_LIMIT)

    def stop(self, reason: str, count: int | None) -> None:
        """Set the group to zero nodes, once; its pods are notified, and wait as Pending for new nodes.

        Raises:
            ClientError: EKS refuses.
        """
        name = self.settings.name
        try:
            group = self.eks.describe_nodegroup(clusterName=name, nodegroupName=WORKERS)["nodegroup"]
        except self.eks.exceptions.ResourceNotFoundException:
            print(f"no nodes to stop: {name} has no group {WORKERS} yet, or no longer")  # noqa: T201 - the log
            return
        sizes = group["scalingConfig"]
        if sizes["desiredSize"] == 0 or group["status"] == DELETING:
            self.notify_of_kept_nodes(group)
            return
        self.eks.update_nodegroup_config(
            clusterName=name, nodegroupName=WORKERS, scalingConfig={"minSize": 0, "desiredSize": 0}
        )
        self.notify_of_stop(
            "nodes stopped",
            reason,
            f"{its(count, 'nodes', 'are').capitalize()} being stopped; jobs wait as Pending.\n"
            f"Start them again: aws eks update-nodegroup-config --cluster-name {name} --nodegroup-name {WORKERS}"
            f" --region {self.settings.region} --scaling-config desiredSize={sizes['maxSize']}\n"
            f"Control plane, system node and network are still billed: slipway down {self.settings.cluster}",
        )

    def notify_of_kept_nodes(self, group: Mapping[str, Any]) -> None:
        """Notify every hour of nodes that a group set to zero still has: EKS ends nodes and reports why it cannot."""
        ids = [node["InstanceId"] for node in self.nodes()]
        if not ids or self.now - group.get("modifiedAt", self.now) < SETTLED:
            return
        if self.first("nodes stay", HOUR):
            issues = "; ".join(issue["message"] for issue in group.get("health", {}).get("issues", []))
            self.notify(
                "nodes still run after the stop",
                f"its node group should have had no nodes since {group['modifiedAt']:%Y-%m-%d %H:%M} UTC and has"
                f" {len(ids)}: {', '.join(ids[:10])}. {issues or 'EKS gives no reason'}\nEnd them by hand: aws ec2"
                f" terminate-instances --region {self.settings.region} --instance-ids {' '.join(ids[:10])}",
            )
