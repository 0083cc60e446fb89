"""Processes that an ended attempt left on the node: they write into its folders, and occupy the accelerators."""

import signal
import time
from pathlib import Path

from launcher.agent.errors import OccupiedNodeError
from launcher.agent.node.folder_users import find_folder_users
from launcher.agent.node.process_table import Process, find_processes, send

INTERVAL_VARIABLE = "SLIPWAY_CHECKPOINT_INTERVAL_FILE"
"""The variable that marks the processes of one job on this node, in whatever session: its file is the job's own."""
LOCK_NAME = "lock"
"""The file in a job's folder that its agent holds open and locked."""
_KILL_WAIT_S = 60.0
_TERM_WAIT_S = 5.0
_POLL_S = 0.1


def end_leftovers(interval_file: Path, *, gently: bool = False) -> list[str]:
    """End the processes whose environment names a job's file, or that use its folder; return what they were.

    `gently`: SIGTERM, and five seconds to end, come before SIGKILL.

    Raises:
        OccupiedNodeError: processes remain.
    """
    first = remaining = _find(interval_file)
    if first and gently:
        send(first, signal.SIGTERM)
        remaining = _wait(interval_file, _TERM_WAIT_S)
    patience = time.monotonic() + _KILL_WAIT_S
    while remaining:
        if time.monotonic() >= patience:
            names = ", ".join(_process_text(process) for process in remaining[:4])
            raise OccupiedNodeError(
                f"{len(remaining)} processes of an ended attempt cannot be killed ({names}): they write into "
                f"{interval_file.parent}; reboot or replace this node"
            )
        send(remaining, signal.SIGKILL)  # again and again: one may have started another
        remaining = _wait(interval_file, _POLL_S)
    return [_process_text(process) for process in first]


def _find(interval_file: Path) -> tuple[Process, ...]:
    marked = find_processes(None, {INTERVAL_VARIABLE: str(interval_file)})
    return marked + find_folder_users(interval_file.parent, lock_name=LOCK_NAME, mark=INTERVAL_VARIABLE)


def _wait(interval_file: Path, wait_s: float) -> tuple[Process, ...]:
    """Wait for their end; return those that remain."""
    patience = time.monotonic() + wait_s
    while (remaining := _find(interval_file)) and time.monotonic() < patience:
        time.sleep(_POLL_S)
    return remaining


def _process_text(process: Process) -> str:
    return f"{process.program or 'a process'} (process {process.pid})"
