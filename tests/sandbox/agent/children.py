"""Agent processes that the fork server started, with the interface of `subprocess.Popen`."""

import itertools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.waiting import until

ROOT = Path(__file__).resolve().parents[3]


class Child:
    """One process of the nursery's."""

    def __init__(self, pid, status):
        self.pid, self.returncode = pid, None
        self._status = status

    def poll(self):
        """Its exit code, negative for a signal; None while it runs."""
        if self.returncode is None and self._status.exists():
            self.returncode = os.waitstatus_to_exitcode(int(self._status.read_text()))
        return self.returncode

    def wait(self, timeout=60):
        """Its exit code, once it has ended."""
        until(lambda: self.poll() is not None, lambda: f"agent {self.pid} does not end", timeout)
        return self.returncode

    def send_signal(self, number):
        """Signal it, if it still runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self):
        self.send_signal(signal.SIGTERM)

    def kill(self):
        self.send_signal(signal.SIGKILL)


class Nursery:
    """The process that has loaded everything."""

    def __init__(self):
        self._numbers = itertools.count()
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("nursery.py"))],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def start(self, arguments, environment, log):
        """Start an agent whose standard output and error go to `log`."""
        status = Path(f"{log}.{next(self._numbers)}.status")
        Path(log).touch()
        request = {"arguments": arguments, "environment": environment, "folder": str(ROOT)}
        request |= {"log": str(log), "status": str(status)}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return Child(int(self._process.stdout.readline()), status)

    def close(self):
        self._process.stdin.close()
        self._process.wait(timeout=10)
        self._process.stdout.close()
