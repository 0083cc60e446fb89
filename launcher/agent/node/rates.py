"""How fast this node works by itself, for the first node to compare with the others.

In synchronous training all nodes have the same time a step: the others wait for the slowest one. So a node publishes
what is its own, as two rates (the higher, the faster):

    work   steps per second of its own work, if its trainer reports `work_seconds` in SLIPWAY_NODE_METRICS: the seconds
           in which the node did not wait for others, counted from the start of the attempt
    chips  the clock of its slowest chip times the share of time in which a kernel ran there. A chip that waits for
           other nodes runs NCCL's kernels all the time, at a clock that is no lower: one that is throttled has a lower
           clock, and one that waits for its own data or CPU runs no kernel. NVIDIA GPUs only.
"""

import threading
import time
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from launcher.agent.forecast import CHIPS, WORK
from launcher.agent.node.idle_chips import CONTEXT_MIB, gpu_rows
from launcher.agent.node.peers import Peers
from launcher.agent.node.progress import Metrics

WINDOW_S = 300.0
"""A rate is the mean over this time: single steps differ, by their data and by checkpoints."""
PUBLISH_S = 30.0


class _Report(NamedTuple):
    """The trainer's report on one node."""

    at: float
    step: int
    work_s: float


class WorkRate:
    """Steps per second of this node's own work."""

    def __init__(self, path: Path) -> None:
        self._metrics = Metrics(path)
        self._reports: deque[_Report] = deque()

    def poll(self, now: float) -> float | None:
        """The rate over the window; None if the trainer does not report it."""
        for line in self._metrics.new_lines():
            if "step" not in line or "work_seconds" not in line:
                continue
            report = _Report(at=now, step=int(line["step"]), work_s=float(line["work_seconds"]))
            if self._reports and (report.step < self._reports[-1].step or report.work_s < self._reports[-1].work_s):
                self._reports.clear()
            self._reports.append(report)
        while len(self._reports) > 2 and self._reports[1].at <= now - WINDOW_S:  # noqa: PLR2004 - two make a rate
            self._reports.popleft()
        if not self._reports:
            return None
        first, last = self._reports[0], self._reports[-1]
        return (last.step - first.step) / (last.work_s - first.work_s) if last.work_s > first.work_s else None


class NodeRates(threading.Thread):
    """Publishes the rates of this node while its command runs."""

    def __init__(self, path: Path, peers: Peers) -> None:
        super().__init__(name="node-rates", daemon=True)
        self._work = WorkRate(path)
        self._peers = peers
        self._samples: deque[Mapping[int, float]] = deque(maxlen=round(WINDOW_S / PUBLISH_S))
        self._over = threading.Event()

    def begin(self) -> None:
        """Begin to measure; a single node has no other to compare with."""
        if not self._peers.alone:
            self.start()

    def stop(self) -> None:
        """Measure no more: the command has ended."""
        self._over.set()

    def run(self) -> None:
        """Measure and publish until stopped."""
        while not self._over.wait(PUBLISH_S):
            rates = {WORK: self._work.poll(time.monotonic()), CHIPS: self._slowest_chip()}
            known = {name: float(f"{rate:.6g}") for name, rate in rates.items() if rate is not None}
            if known:
                self._peers.publish_state(rates=known)

    def _slowest_chip(self) -> float | None:
        self._samples.append(chip_clocks())
        if len(self._samples) < (self._samples.maxlen or 0):
            return None
        of_chip: dict[int, list[float]] = {}
        for sample in self._samples:
            for chip, clock in sample.items():
                of_chip.setdefault(chip, []).append(clock)
        means = [sum(clocks) / len(clocks) for clocks in of_chip.values()]
        return min((mean for mean in means if mean > 0), default=None)


def node_metrics(metrics: Path, part: int) -> Path:
    """The file in which a trainer reports the own work of a node, beside the job's metrics."""
    return metrics.with_name(f"node-metrics-{part}.jsonl")


def metrics_variables(metrics: Path, part: int) -> dict[str, str]:
    """The variables of the command that name its metrics."""
    return {"SLIPWAY_METRICS": str(metrics), "SLIPWAY_NODE_METRICS": str(node_metrics(metrics, part))}


def chip_clocks() -> dict[int, float]:
    """The clock of each GPU in use times its utilization, in MHz, by the number of the GPU; empty if not known."""
    clocks: dict[int, float] = {}
    for row in gpu_rows("index", "memory.used", "utilization.gpu", "clocks.sm"):
        try:
            chip, memory, used, clock = (float(value) for value in row.split(","))
        except ValueError:  # a card that does not report one of them, or has failed
            continue
        if memory > CONTEXT_MIB:
            clocks[int(chip)] = clock * used / 100.0
    return clocks
