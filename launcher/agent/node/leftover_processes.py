"""Processes that an ended attempt left on the node: they write into its folders, and occupy the accelerators."""

import signal
import time
from pathlib import Path

from launcher.agent.errors import OccupiedNodeError
from launcher.agent.node.process_table import Process, find_processes, send

INTERVAL_VARIABLE = "SLIPWAY_CHECKPOINT_INTERVAL_FILE"
"""The variable that marks the processes of one job on this node, in whatever session: its file is the job's own."""
_KILL_WAIT_S = 60.0
_TERM_WAIT_S = 5.0
_POLL_S = 0.1


def end_leftovers(interval_file: Path, *, gently: bool = False) -> list[str]:
    """End the processes whose environment names a job's file, and return what they were.

    `gently`: SIGTERM, and five seconds to end, come before SIGKILL.

    Raises:
        OccupiedNodeError: processes remain.
    """
    marks = {INTERVAL_VARIABLE: str(interval_file)}
    first = find_processes(None, marks)
    if first and gently:
        send(first, signal.SIGTERM)
        _wait(marks, _TERM_WAIT_S)
    patience = time.monotonic() + _KILL_WAIT_S
    while remaining := find_processes(None, marks):
        if time.monotonic() >= patience:
            names = ", ".join(_described(process) for process in remaining[:4])
            raise OccupiedNodeError(
                f"{len(remaining)} processes of an ended attempt cannot be killed ({names}): they write into "
                f"{interval_file.parent}; reboot or replace this node"
            )
        send(remaining, signal.SIGKILL)  # again and again: one may have started another
        _wait(marks, _POLL_S)
    return [_described(process) for process in first]


def _wait(marks: dict[str, str], wait_s: float) -> None:
    patience = time.monotonic() + wait_s
    while find_processes(None, marks) and time.monotonic() < patience:
        time.sleep(_POLL_S)


def _described(process: Process) -> str:
    return f"{process.program or 'a process'} (process {process.pid})"
