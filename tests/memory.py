"""Limits the peak memory of a part of a test, independent of earlier tests in the process."""

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
