"""Tests wait for conditions, never for seconds."""

import time
from types import SimpleNamespace

PATIENCE_S = 240.0
"""Of a machine that does much else at the same time."""


def until(condition, describe=str, seconds=PATIENCE_S):
    """Wait until a condition holds, and return its value; after the timeout the test fails with `describe()`."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"waited in vain: {describe()}"
        time.sleep(0.02)
    return value


def replace_sleep(monkeypatch, module, sleep=lambda seconds: None):
    """Replace `time.sleep` for one module.

    Patched in `time` itself, it is replaced for every thread of the process: loops that earlier tests have left behind
    then run without a pause, and took five times the processor time of the tests beside them.
    """
    monkeypatch.setattr(f"{module}.time", SimpleNamespace(**{**vars(time), "sleep": sleep}))
