# ruff: noqa: INP001 - one file that is shipped as it is; the folder is the function's code
"""Machines that do nothing: what EC2's own metrics say of one, and reserved ones of which none is there."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

Node = Mapping[str, Any]
"""An instance as EC2 describes it."""
Sample = tuple[datetime, float]
Values = dict[str, dict[str, list[Sample]]]
"""Values of metrics with their times, by instance and metric."""
STATISTICS = {"CPUUtilization": "Average", "NetworkIn": "Sum", "NetworkOut": "Sum"}
"""The metrics of EC2 that say whether a machine does something, by how they are added up."""
IDLE_VCPUS = 1.0
IDLE_BYTES_PER_S = 1e6
"""A node is idle that keeps less than one vCPU busy and moves less than 1 MB/s: ranks that compute, or wait in a
collective, keep one vCPU busy each, and a download moves more."""
SAMPLE = timedelta(minutes=5)
"""Between two values of EC2's own metrics, which cost nothing."""


class Reserved(NamedTuple):
    """Machines that are paid for whether or not they run: how many, and their window where the plan says it."""

    nodes: int
    begins: datetime | None
    ends: datetime | None

    @classmethod
    def of(cls, variables: Mapping[str, str]) -> "Reserved | None":
        """Those of a mapping of environment variables; None where there are none."""
        if "RESERVED_NODES" not in variables:
            return None
        window = (variables.get(f"RESERVED_{name}") for name in ("FROM", "UNTIL"))
        begins, ends = (datetime.fromisoformat(text) if text else None for text in window)
        return cls(int(variables["RESERVED_NODES"]), begins, ends)

    def unused(self, ran_until: datetime, now: datetime, window: timedelta) -> str:
        """In words that none of them has run for a time, since when the window was open; "" where that is not so.

        Args:
            ran_until: when one ran last, or the stack was deployed.
            now: the moment, at which none runs.
            window: for how long at least.
        """
        since = ran_until if self.begins is None else max(ran_until, self.begins)
        if now - since < window or (self.ends is not None and now >= self.ends):
            return ""
        return f"none of the {self.nodes} reserved nodes has run since {since:%Y-%m-%d %H:%M} UTC"


def query(id_: str, name: str, statistic: str, instance: str) -> dict[str, Any]:
    """One metric of one instance, as GetMetricData takes it."""
    metric = {
        "Namespace": "AWS/EC2",
        "MetricName": name,
        "Dimensions": [{"Name": "InstanceId", "Value": instance}],
    }
    return {"Id": id_, "MetricStat": {"Metric": metric, "Period": int(SAMPLE.total_seconds()), "Stat": statistic}}


def is_idle(node: Node, values: Mapping[str, list[Sample]], since: datetime, now: datetime) -> bool:
    """Whether a node's metrics show nothing but the operating system; False where too many of them are missing."""
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
