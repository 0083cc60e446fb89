"""Tests wait for conditions, never for seconds."""

import time

PATIENCE_S = 240.0
"""Of a machine that does much else at the same time."""


def until(condition, describe=str, seconds=PATIENCE_S):
    """Wait until a condition holds, and return its value; after the timeout the test fails with `describe()`."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"waited in vain: {describe()}"
        time.sleep(0.02)
    return value
