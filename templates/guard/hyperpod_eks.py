# ruff: noqa: INP001 - one file that is shipped as it is; the folder is the function's code
"""The guard of a HyperPod cluster with EKS: as with Slurm, except how it detects idleness.

Its instances run in SageMaker's own account, and no controller reports a queue. At each check, a function inside the
cluster's network counts the pods that need nodes (templates/chart/pods.py); the guard records the count as a metric.
Users are notified of pods that cannot start, which do not count.
"""

import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from guard import Node, Settings, aws, respond
from hyperpod import HyperPodGuard
from pod_counts import pods_of
from schedule import NAMESPACE


def handler(event: Mapping[str, Any], context: Any) -> None:
    """The Lambda handler."""
    settings = Settings.of(os.environ)
    eks_guard = HyperPodEksGuard(
        settings, aws, datetime.now(UTC), counter=os.environ["PODS_FUNCTION"], workers=int(os.environ["WORKERS"])
    )
    respond(eks_guard, event, context)


class HyperPodEksGuard(HyperPodGuard):
    """One call of the guard of a HyperPod cluster with EKS."""

    waits = "their pods wait as Pending"
    costs_on = "Control plane, system node and network"
    queued = "WorkingPods"
    slurm = False
    queue_namespace = NAMESPACE
    """The guard itself reports the pods."""

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
        self.counter = counter
        self.wanted = workers
        # Whether pods cannot start; the other pods of their job may write heartbeats.
        self.stuck = False

    def unbacked(self, nodes: list[Node]) -> bool:
        """As in `HyperPodGuard`."""
        return super().unbacked(nodes) and not self.stuck

    def all_idle(self, nodes: list[Node]) -> bool:
        """Whether no pod needed a node for the idle time, if one is set.

        False if the cluster does not respond: a missing count is not zero.
        """
        if not self.settings.idle or not nodes:
            return False
        count = self.pods(nodes)
        if count is None:
            return False
        dimensions = [{"Name": "Cluster", "Value": self.settings.cluster}]
        data = {"MetricName": self.queued, "Dimensions": dimensions, "Timestamp": self.scheduled, "Value": count}
        self.cloudwatch.put_metric_data(Namespace=NAMESPACE, MetricData=[data])
        return count == 0 and super().all_idle(nodes)

    def pods(self, nodes: list[Node]) -> int | None:
        """The number of pods that need nodes; None if it is unknown.

        Raises:
            ClientError: the call of the function is denied.
            RefusedError: the function failed.
        """
        if self.counter is None:
            return None
        running = sum(node["InstanceStatus"]["Status"] == "Running" for node in nodes)
        counts = pods_of(self, self.counter, whole=running >= self.wanted)
        self.stuck = bool(counts["stuck"])
        return int(counts["pods"])
