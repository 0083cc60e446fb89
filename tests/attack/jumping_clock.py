"""The agent with a wall clock that is off by the number of seconds in the file that JUMPING_CLOCK names.

The functions that read the time of day are replaced before the agent and its SDK are imported. The monotonic clock does
not change, as when a host's clock is set. (libfaketime 0.9.10 breaks `time.sleep` of Python 3.11.)
"""

import datetime as dt
import os
import runpy
import time
from pathlib import Path

_real = time.time


def _now():
    return _real() + float(Path(os.environ["JUMPING_CLOCK"]).read_text())


class Jumping(dt.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls.fromtimestamp(_now(), tz)

    @classmethod
    def utcnow(cls):
        return cls.fromtimestamp(_now(), dt.UTC).replace(tzinfo=None)


if __name__ == "__main__":
    time.time = _now
    time.time_ns = lambda: int(_now() * 1e9)
    dt.datetime = Jumping  # type: ignore[misc]
    runpy.run_module("launcher.agent", run_name="__main__", alter_sys=True)
