# ruff: noqa: INP001 - one file that is shipped as it is; the folder is the function's code
"""The guard of a HyperPod cluster with EKS: that of one with Slurm, but for what tells it of idleness.

Its instances run in SageMaker's own account, and no controller reports a queue. At each look it has a function inside
the cluster's network count the pods that need machines (templates/chart/pods.py), and keeps the count as a metric.
"""

import json
import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError
from guard import NAMESPACE, Node, Settings, respond
from hyperpod import HyperPodGuard


def handler(event: Mapping[str, Any], _context: object) -> None:
    """What Lambda calls."""
    settings = Settings.of(os.environ)
    respond(HyperPodEksGuard(settings, boto3.client, datetime.now(UTC), asks=os.environ["PODS_FUNCTION"]), event)


class HyperPodEksGuard(HyperPodGuard):
    """One call of the guard of a HyperPod cluster with EKS."""

    waits = "their pods wait as Pending"
    costs_on = "Control plane, system node and network"
    queued = "WorkingPods"

    def __init__(
        self, settings: Settings, client: Callable[[str], Any], now: datetime, *, asks: str | None = None
    ) -> None:
        """The same; `asks` is the function that counts pods, None where nobody does."""
        super().__init__(settings, client, now)
        self.asks = asks

    def all_idle(self, nodes: list[Node]) -> bool:
        """Whether no pod has needed a machine for the idle time, where there is one.

        A cluster that does not answer says nothing, and a count that is missing is no zero.
        """
        if not self.settings.idle or not nodes:
            return False
        count = self.pods()
        if count is None:
            return False
        dimensions = [{"Name": "Cluster", "Value": self.settings.cluster}]
        data = {"MetricName": self.queued, "Dimensions": dimensions, "Timestamp": self.now, "Value": count}
        self.cloudwatch.put_metric_data(Namespace=NAMESPACE, MetricData=[data])
        return count == 0 and super().all_idle(nodes)

    def pods(self) -> int | None:
        """How many pods need machines; None where nobody can say."""
        if self.asks is None:
            return None
        try:
            answer = self.client("lambda").invoke(FunctionName=self.asks, Payload=b"{}")
        except (BotoCoreError, ClientError) as refusal:
            print(f"the pods cannot be counted: {refusal}")  # noqa: T201 - the function's log
            return None
        said = answer["Payload"].read().decode()
        if "FunctionError" in answer:
            print(f"the pods cannot be counted: {said}")  # noqa: T201 - the function's log
            return None
        return int(json.loads(said)["pods"])
