"""The events on a node, one JSON object per line, in a file that outlives the node."""

import contextlib
import ctypes
import json
import os
import stat
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

FORECAST = "forecast"
"""The event of a job that will cost more than its budget, or other than quoted."""
NEWER = "a newer checkpoint is complete"
"""The reason why a checkpoint was dropped, if nothing is lost."""
LONGEST_LINE = 4096
"""Bytes of an event; most have a few hundred."""
_TAIL_BYTES = 64 * 1024
"""Space beyond the end of the log: more than 200 events."""
_KEEP_SIZE = 1
"""FALLOC_FL_KEEP_SIZE of <linux/falloc.h>."""
_MAX_UNWRITTEN = 1000
"""Events that wait for room on the disk; of more, the oldest are lost."""
ROUTINE = frozenset(
    {
        "attempt-started",
        "checkpoint-part-uploaded",
        "command-ended",
        "command-started",
        "completed",
        "nothing-restored",
        "restored",
        "signalled",
    }
)
"""Normal events that all nodes have alike. All print into one log, so the first node prints these for all."""


def utc_now() -> str:
    """The current time, ISO with milliseconds and Z."""
    return _iso(datetime.now(timezone.utc))


def _iso(time: datetime) -> str:
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class EventLog:
    """Appends events and prints them on standard error. Safe to use from every thread.

    A line is one `write` on a file opened for appending. Network file systems do not keep appends from several nodes
    apart: every node has its own file (`events_path`).
    """

    def __init__(self, path: Path, *, unprinted: frozenset[str] = frozenset(), **fields: Any) -> None:
        """Events in `unprinted` are written and not printed; `fields` are in every event."""
        self._path = path
        self._unprinted = unprinted
        self._fields = fields
        self._lock = threading.Lock()
        self._broken = self._torn = False
        self._reserved = 0
        """The size of the file up to which its disk has room for it alone."""
        self._unwritten: deque[bytes] = deque(maxlen=_MAX_UNWRITTEN)
        self._listener: Callable[[Mapping[str, Any]], None] | None = None
        self._end_a_torn_line()

    def subscribe(self, listener: Callable[[Mapping[str, Any]], None]) -> None:
        """Call `listener` with every event from now on."""
        self._listener = listener

    def append(self, event: str, **fields: Any) -> None:
        """Write one event. A log that cannot be written is reported once and does not stop the job."""
        document = {"time": utc_now(), "event": event, **self._fields, **fields}
        line = json.dumps(document) + "\n"
        details = " ".join(f"{name}={_brief(value)}" for name, value in fields.items() if value is not None)
        with self._lock:
            if event not in self._unprinted:
                _print(f"[slipway] {event} {details}".rstrip())
            self._write(line.encode())
        if self._listener is not None:
            self._listener(document)

    def _write(self, line: bytes) -> None:
        """Write a line, and before it those that a full disk did not take."""
        self._unwritten.append(line)
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            try:
                self._reserve(descriptor)
                while self._unwritten:
                    data = b"\n" + self._unwritten[0] if self._torn else self._unwritten[0]
                    self._torn = os.write(descriptor, data) < len(data)  # a disk that fills up takes a piece of it
                    if self._torn:
                        return
                    self._unwritten.popleft()
            finally:
                os.close(descriptor)
        except OSError as error:
            if not self._broken:
                _print(f"[slipway] events cannot be written: {error}")
            self._broken = True

    def _reserve(self, descriptor: int) -> None:
        """Keep room for further events, which a trainer that fills the disk must not take."""
        size = os.fstat(descriptor).st_size
        if size + LONGEST_LINE > self._reserved:
            self._reserved = reserve_tail(descriptor, size)

    def _end_a_torn_line(self) -> None:
        """End an incomplete line that a killed agent may have left; the next event must start on a new line."""
        try:
            with self._path.open("rb") as file:
                file.seek(-1, os.SEEK_END)
                torn = file.read(1) != b"\n"
        except OSError:
            return
        self._torn = torn


def report_lost(log: EventLog, earlier: int, attempt: int, written_s: float) -> None:
    """Report an earlier attempt without a word of its end, and when its last sign of life was stored (seconds)."""
    if earlier < attempt and written_s:
        log.append("attempt-lost", lost=earlier, last_seen=_iso(datetime.fromtimestamp(written_s, timezone.utc)))


def events_path(path: Path, *, part: int) -> Path:
    """The file of one node: the path itself for the first, `events-part1.jsonl` for the second.

    >>> events_path(Path("/fsx/r1/events.jsonl"), part=1).name
    'events-part1.jsonl'
    """
    return path if part == 0 else path.with_name(f"{path.stem}-part{part}{path.suffix}")


def reserve_tail(descriptor: int, end: int) -> int:
    """Allocate space beyond the end of an open log, so that its next lines fit on a full disk.

    A file system that cannot, or has no room, leaves the log as it is.

    Args:
        descriptor: the log.
        end: its size.

    Returns:
        The size up to which it may grow now; `end` if nothing was allocated.
    """
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "fallocate"):
        return end
    place, size = ctypes.c_int64(end), ctypes.c_int64(_TAIL_BYTES)
    return end if libc.fallocate(ctypes.c_int(descriptor), _KEEP_SIZE, place, size) else end + _TAIL_BYTES


def _print(line: str) -> None:
    """Print to the node's log, which is the output; its reader may be gone (srun, slurmstepd): the job continues.

    The command writes to the same file: a line and its end go out in one write, even if Python does not buffer.
    """
    with contextlib.suppress(OSError):
        sys.stderr.write(f"{_line_end_before()}{line}\n")
        sys.stderr.flush()


def _line_end_before() -> str:
    """A line end, if standard error is a file whose last line the command has not ended: a progress bar."""
    try:
        status = os.fstat(sys.stderr.fileno())
        if not stat.S_ISREG(status.st_mode) or not status.st_size:
            return ""
        with Path(f"/proc/self/fd/{sys.stderr.fileno()}").open("rb") as file:
            file.seek(-1, os.SEEK_END)
            return "" if file.read(1) == b"\n" else "\n"
    except (OSError, ValueError):  # of a closed stream, or of one in memory
        return ""


def _brief(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return json.dumps(text) if " " in text else text
