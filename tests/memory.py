"""How much memory a part of a test takes at its worst, whatever the tests before it have left in the process."""

from contextlib import contextmanager
from pathlib import Path

PROCESS = Path("/proc/self")


def _kib(key):
    (line,) = [line for line in (PROCESS / "status").read_text().splitlines() if line.startswith(f"{key}:")]
    return int(line.split()[1])


@contextmanager
def at_most(kib):
    """Fail where the resident memory exceeds what it was at the start by more than `kib` KiB, at any time.

    Linux alone: proc(5), clear_refs: 5 sets the peak (VmHWM) back to the present size.
    """
    (PROCESS / "clear_refs").write_text("5")
    before = _kib("VmRSS")
    yield
    assert _kib("VmHWM") - before < kib
