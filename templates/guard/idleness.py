# ruff: noqa: INP001 - one file that is shipped as it is; the folder is the function's code
"""Inactive nodes: a node's activity in EC2's own metrics, and reserved nodes of which none runs."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

Node = Mapping[str, Any]
"""An instance as EC2 describes it."""
Sample = tuple[datetime, float]
Values = dict[str, dict[str, list[Sample]]]
"""Values of metrics with their timestamps, by instance and metric."""
STATISTICS = {"CPUUtilization": "Average", "NetworkIn": "Sum", "NetworkOut": "Sum"}
"""The EC2 metrics that show a node's activity, with their statistics."""
IDLE_VCPUS = 1.0
IDLE_BYTES_PER_S = 1e6
"""A node is idle if it keeps less than one vCPU busy and transfers less than 1 MB/s: ranks that compute, or wait in a
collective, keep one vCPU busy each, and a download transfers more."""
SAMPLE = timedelta(minutes=5)
"""Time between two values of EC2's own metrics, which are free."""


class Reserved(NamedTuple):
    """Nodes that are billed whether or not they run: their number, and their time window if the plan has one."""

    nodes: int
    begins: datetime | None
    ends: datetime | None

    @classmethod
    def of(cls, variables: Mapping[str, str]) -> "Reserved | None":
        """The reservation in a mapping of environment variables; None without one."""
        if "RESERVED_NODES" not in variables:
            return None
        window = (variables.get(f"RESERVED_{name}") for name in ("FROM", "UNTIL"))
        begins, ends = (datetime.fromisoformat(text) if text else None for text in window)
        return cls(int(variables["RESERVED_NODES"]), begins, ends)

    def unused(self, ran_until: datetime, now: datetime, window: timedelta) -> str:
        """A text that none of them has run for `window` while their own window was open; "" if that is not the case.

        Args:
            ran_until: when the last one ran, or when the stack was deployed.
            now: the current time, at which none runs.
            window: the minimum time.
        """
        since = ran_until if self.begins is None else max(ran_until, self.begins)
        if now - since < window or (self.ends is not None and now >= self.ends):
            return ""
        return f"none of the {self.nodes} reserved nodes has run since {since:%Y-%m-%d %H:%M} UTC"


def query(  # noqa: PLR0917 - one metric has as many names
    id_: str, name: str, statistic: str, instance: str, namespace: str, dimension: str
) -> dict[str, Any]:
    """One metric of one instance, as a query for GetMetricData."""
    metric = {
        "Namespace": namespace,
        "MetricName": name,
        "Dimensions": [{"Name": dimension, "Value": instance}],
    }
    return {"Id": id_, "MetricStat": {"Metric": metric, "Period": int(SAMPLE.total_seconds()), "Stat": statistic}}


def is_active(node: Node, values: Mapping[str, list[Sample]], since: datetime) -> bool:
    """Whether one of a node's samples since then shows more than the operating system; False without samples."""
    cpu, received, sent = ([value for at, value in values.get(metric, ()) if at >= since] for metric in STATISTICS)
    vcpus = node["CpuOptions"]["CoreCount"] * node["CpuOptions"]["ThreadsPerCore"]
    most = max(received, default=0.0) + max(sent, default=0.0)
    return max(cpu, default=0.0) / 100 * vcpus >= IDLE_VCPUS or most / SAMPLE.total_seconds() >= IDLE_BYTES_PER_S


def is_idle(node: Node, values: Mapping[str, list[Sample]], since: datetime, now: datetime) -> bool:
    """Whether a node's metrics show nothing but the operating system; False if too many values are missing."""
    window = now - since
    cpu, received, sent = ([value for at, value in values.get(metric, ()) if at >= since] for metric in STATISTICS)
    # The newest values come late.
    if min(len(cpu), len(received), len(sent)) < window // SAMPLE - 2:
        return False
    options = node["CpuOptions"]
    vcpus = options["CoreCount"] * options["ThreadsPerCore"]
    moved = sum(received) + sum(sent)
    busiest = max(cpu, default=100.0) / 100 * vcpus
    return bool(busiest < IDLE_VCPUS and moved / window.total_seconds() < IDLE_BYTES_PER_S)
