"""Limits the memory of a part of a test, independent of earlier tests and of other threads in the process."""

import tracemalloc
from contextlib import contextmanager
from pathlib import Path

PROCESS = Path("/proc/self")


def _kib(key):
    (line,) = [line for line in (PROCESS / "status").read_text().splitlines() if line.startswith(f"{key}:")]
    return int(line.split()[1])


@contextmanager
def at_most(kib):
    """Fail if the resident memory ever exceeds its value at the start by `kib` KiB or more.

    Linux only: proc(5), clear_refs: 5 resets the peak (VmHWM) to the current size.
    """
    (PROCESS / "clear_refs").write_text("5")
    before = _kib("VmRSS")
    yield
    assert _kib("VmHWM") - before < kib


def held_by(module):
    """The bytes that lines of a module have allocated and that are still held, since `tracemalloc.start()`.

    Its own figures, and their peak, are those of every thread: a server of another test may be among them.
    """
    snapshot = tracemalloc.take_snapshot().filter_traces(
        [tracemalloc.Filter(inclusive=True, filename_pattern=module.__file__)]
    )
    return sum(trace.size for trace in snapshot.traces)
