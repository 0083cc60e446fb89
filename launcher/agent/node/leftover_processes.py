"""Processes that an ended attempt left on the node: they write into its folders, and occupy the accelerators."""

import contextlib
import os
import re
import signal
import time
from pathlib import Path

from launcher.agent.errors import OccupiedNodeError
from launcher.agent.node.folder_users import find_folder_users
from launcher.agent.node.process import boot_id, start_ticks
from launcher.agent.node.process_table import Process, find_processes, send

INTERVAL_VARIABLE = "SLIPWAY_CHECKPOINT_INTERVAL_FILE"
"""The variable that marks the processes of one job on this node, in whatever session: its file is the job's own."""
LOCK_NAME = "lock"
"""The file in a job's folder that its agent holds open and locked; it names the first agent's boot and start."""
_FIRST_USE = re.compile(r"(?P<boot>\S+) (?P<ticks>\d+)\n")
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
    folder = interval_file.parent
    users = find_folder_users(folder, lock_name=LOCK_NAME, mark=INTERVAL_VARIABLE, first_use=first_use(folder))
    return marked + users


def record_first_use(lock: int) -> None:
    """Write this process's boot and start into the lock of a new folder, as `first_use` reads them."""
    with contextlib.suppress(OSError):  # of a full disk: the first use stays unknown
        os.write(lock, f"{boot_id()} {start_ticks(os.getpid())}\n".encode())


def first_use(folder: Path) -> int:
    """Clock ticks from boot to the start of the first agent of a job's folder; 0 if unknown, or of an earlier boot."""
    try:
        match = _FIRST_USE.fullmatch((folder / LOCK_NAME).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 0
    return int(match["ticks"]) if match and match["boot"] == boot_id() else 0


def _wait(interval_file: Path, wait_s: float) -> tuple[Process, ...]:
    """Wait for their end; return those that remain."""
    patience = time.monotonic() + wait_s
    while (remaining := _find(interval_file)) and time.monotonic() < patience:
        time.sleep(_POLL_S)
    return remaining


def _process_text(process: Process) -> str:
    return f"{process.program or 'a process'} (process {process.pid})"
