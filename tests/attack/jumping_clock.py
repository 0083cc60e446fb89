"""The agent with a wall clock that is off by as many seconds as the file named in JUMPING_CLOCK says at that moment.

What asks the kernel for the time of day is replaced before the agent and its SDK are imported; seconds since the boot
go on as ever, as they do when a machine's clock is set. (libfaketime 0.9.10 breaks `time.sleep` of Python 3.11.)
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
