"""Waits for conditions: tests never wait for a fixed time."""

import time
from types import SimpleNamespace

PATIENCE_S = 240.0
"""Timeout for a host with much other load."""


def until(condition, describe=str, seconds=PATIENCE_S):
    """Wait until a condition holds, and return its value; after the timeout the test fails with `describe()`.

    The pauses grow with the wait, from 0.02 to 0.2 s: many conditions send a request to a server of this process.
    """
    start = time.monotonic()
    while not (value := condition()):
        waited = time.monotonic() - start
        assert waited < seconds, f"waited in vain: {describe()}"
        time.sleep(min(max(0.02, waited / 20), 0.2))
    return value


def replace_sleep(monkeypatch, module, sleep=lambda seconds: None):
    """Replace `time.sleep` for one module.

    A patch in `time` itself would affect every thread of the process: loops of earlier tests would then run without a
    pause, and used five times the processor time of the current tests.
    """
    monkeypatch.setattr(f"{module}.time", SimpleNamespace(**{**vars(time), "sleep": sleep}))
