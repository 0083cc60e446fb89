"""The time for which a node has been idle: no CPU load, no network traffic, no step of the job."""

import os
from pathlib import Path

IDLE_VCPUS = 1.0
IDLE_BYTES_PER_S = 1e6
"""Below both limits a node is idle: ranks that compute, or wait in a collective, keep one vCPU busy each; a download
moves more. The guard applies the same limits to EC2's own metrics (templates/guard/idleness.py)."""
_AT_WORK = (0, 1, 2, 5, 6, 7)
"""Columns of the first line of /proc/stat, after its name: all but idle, iowait and guests' (proc_stat(5))."""
_LOOPBACK = "lo"
_ADAPTERS = "*/ports/*/hw_counters/*_bytes"
"""Bytes that an EFA interface has moved past the kernel (EC2 user guide, Monitor an Elastic Fabric Adapter)."""


class Stillness:
    """Polls a node's counters from time to time."""

    def __init__(
        self, now: float, *, proc: Path = Path("/proc"), adapters: Path = Path("/sys/class/infiniband")
    ) -> None:
        self._proc, self._adapters = proc, adapters
        self._since = self._at = now
        self._last = self._counters()

    def move(self, now: float) -> None:
        """Record a step or a finished checkpoint of the job."""
        self._since = now

    def still_s(self, now: float) -> float:
        """Poll, and return the seconds without activity; unreadable counters count as activity."""
        last, current, seconds = self._last, self._counters(), now - self._at
        if seconds > 0:
            self._last, self._at = current, now
            if last is None or current is None or _works(last, current, seconds):
                self._since = now
        return max(0.0, now - self._since)

    def _counters(self) -> tuple[float, int] | None:
        """Busy seconds of the node's CPUs since its start, and bytes that its interfaces moved; None if unreadable."""
        try:
            stat = (self._proc / "stat").read_text(encoding="ascii").splitlines()[0].split()[1:]
            ticks = sum(int(stat[index]) for index in _AT_WORK)
            lines = (self._proc / "net" / "dev").read_text(encoding="ascii").splitlines()
            fields = [line.partition(":") for line in lines if ":" in line]
            # Received bytes come first, sent ones ninth (proc_pid_net(5)).
            moved = sum(
                int(row.split()[0]) + int(row.split()[8]) for name, _, row in fields if name.strip() != _LOOPBACK
            )
            moved += sum(int(path.read_text(encoding="ascii")) for path in self._adapters.glob(_ADAPTERS))
        except (OSError, ValueError, IndexError):
            return None
        return ticks / os.sysconf("SC_CLK_TCK"), moved


def _works(last: tuple[float, int], current: tuple[float, int], seconds: float) -> bool:
    vcpus, bytes_per_s = (now - before for before, now in zip(last, current, strict=True))
    vcpus, bytes_per_s = vcpus / seconds, bytes_per_s / seconds
    return vcpus >= IDLE_VCPUS or bytes_per_s >= IDLE_BYTES_PER_S
