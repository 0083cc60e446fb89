"""Waits for conditions: tests never wait for a fixed time."""

import time
from types import SimpleNamespace

PATIENCE_S = 240.0
"""Timeout for a host with much other load."""


def until(condition, describe=str, seconds=PATIENCE_S):
    """Wait until a condition holds, and return its value; after the timeout the test fails with `describe()`."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"waited in vain: {describe()}"
        time.sleep(0.02)
    return value


def replace_sleep(monkeypatch, module, sleep=lambda seconds: None):
    """Replace `time.sleep` for one module.

    A patch in `time` itself would affect every thread of the process: loops of earlier tests would then run without a
    pause, and used five times the processor time of the current tests.
    """
    monkeypatch.setattr(f"{module}.time", SimpleNamespace(**{**vars(time), "sleep": sleep}))
