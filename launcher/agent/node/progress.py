"""Training progress: the steps in the metrics file, and a watchdog over them.

A hanging collective, a deadlocked data loader or a lost node stops a job while its cost continues. The watchdog ends a
command that reports no new step for `hung_minutes`. It counts from the first step of an attempt or, if an earlier
attempt reported steps, from the start of the command. A finished checkpoint counts as a step but does not start the
count.
"""

import contextlib
import json
import os
from pathlib import Path
from typing import Any

from launcher.agent.events import LONGEST_LINE, reserve_tail
from launcher.agent.metrics import figures_in

_TAIL_BYTES = 64 * 1024
_MAX_BYTES = 1 << 20


class Metrics:
    """Reads the lines that a trainer appends to its metrics file, and keeps room on the disk for more of them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._rest = b""
        self._offset = 0
        tail = b""
        try:
            with path.open("rb") as file:
                self._offset = file.seek(0, os.SEEK_END)
                file.seek(max(0, self._offset - _TAIL_BYTES))
                tail = file.read()
        except OSError:
            pass  # the trainer has not created the file yet
        self.reported_before = any("step" in figures_in(line)[0] for line in tail.splitlines())
        self.invalid = 0
        """Number of lines with an invalid value."""
        self._torn = tail != b"" and not tail.endswith(b"\n")
        self._reserved = 0
        """The size of the file up to which its disk has room for it alone."""

    def keep_room(self) -> None:
        """Allocate room for the next lines: the command, another job or a checkpoint may fill the disk at any time."""
        with contextlib.suppress(OSError):  # without it the file only has the room that the disk has
            descriptor = self._open_log()
            try:
                size = os.fstat(descriptor).st_size
                if size + LONGEST_LINE > self._reserved:
                    self._reserved = reserve_tail(descriptor, size)
            finally:
                os.close(descriptor)

    def prepare(self) -> None:
        """End a line that a full disk or a kill cut in an earlier attempt, and allocate room for the next lines."""
        if self._torn:
            self._write(b"")
        self.keep_room()

    def new_lines(self) -> list[dict[str, int | float]]:
        """The figures of the complete lines appended since the last call; invalid ones are counted in `invalid`."""
        try:
            with self.path.open("rb") as file:
                if file.seek(0, os.SEEK_END) < self._offset:
                    self._offset, self._rest = 0, b""  # the file was started again
                file.seek(self._offset)
                data = file.read(_MAX_BYTES)
        except OSError:
            return []
        self._offset += len(data)
        complete, newline, self._rest = (self._rest + data).rpartition(b"\n")
        if len(self._rest) > _MAX_BYTES:
            self._rest = b""  # no line of metrics is that long; its end will not be one either
        lines = [figures_in(line) for line in complete.splitlines()] if newline else []
        self.invalid += sum(not fine for _, fine in lines)
        return [figures for figures, _ in lines if figures]

    def append(self, **figures: Any) -> bool:
        """Append a line; return whether that succeeded."""
        return self._write((json.dumps(figures) + "\n").encode())

    def _write(self, line: bytes) -> bool:
        """Append a line, and before it the end of one that a full disk cut; return whether all of it was written."""
        data = b"\n" + line if self._torn else line
        try:
            descriptor = self._open_log()
            try:
                written = os.write(descriptor, data)
            finally:
                os.close(descriptor)
        except OSError:
            return False
        self._torn = written < len(data)
        return not self._torn

    def _open_log(self) -> int:
        return os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)


class Watchdog:
    """Counts the time since the last step."""

    def __init__(self, *, hung_s: float | None, armed: bool, now: float) -> None:
        """`hung_s` None: the watchdog never triggers. With `armed`, it counts from now, else from the first step."""
        self._hung_s = hung_s
        self._since = now if armed else None
        self._armed = armed
        self.last_step: int | None = None

    def steps(self, lines: list[dict[str, int | float]], now: float) -> bool:
        """Process lines of metrics; return whether there is progress: a step that differs from the last one."""
        before = self.last_step
        for line in lines:
            step = line.get("step")
            if isinstance(step, int) and step != self.last_step:
                self.last_step = step
                self._armed = True
                self._since = now
        return self.last_step != before

    def checkpoint(self, now: float) -> None:
        """Record a finished checkpoint."""
        if self._armed:
            self._since = now

    def hangs(self, now: float) -> bool:
        """Whether no step was reported for too long."""
        return self._hung_s is not None and self._since is not None and now - self._since >= self._hung_s
