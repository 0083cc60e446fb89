"""A program in a terminal of its own, typed at and read."""

import os
import pty
import re
import select
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

CONTROL = r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|[\x00\x08]"
"""What moves a terminal's cursor, sets its colours, and fills its pauses."""


@contextmanager
def terminal(command: list[str], environment: dict[str, str], folder: Path) -> Iterator[int]:
    """A program in a terminal of its own; the terminal's file."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        command, cwd=folder, env=environment, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    )
    os.close(theirs)
    try:
        yield ours
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def until(file: int, expected: str, patience_s: float = 20.0) -> str:
    """What a terminal shows until something wanted is in it."""
    shown, end = "", time.monotonic() + patience_s
    while expected not in shown:
        remaining_s = end - time.monotonic()
        if remaining_s < 0 or not select.select([file], [], [], remaining_s)[0]:
            pytest.fail(f"waited for {expected!r}, the terminal shows {shown!r}")
        shown += re.sub(CONTROL, "", os.read(file, 4096).decode(errors="replace"))
    return shown
