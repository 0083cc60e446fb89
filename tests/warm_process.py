"""A process of tests that starts once, stays, and listens at a socket."""

import os
import subprocess
import tempfile
from contextlib import ExitStack
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


class WarmProcess:
    """Runs `words` and the path of its socket, when it is needed for the first time, until `close`.

    It prints "ready" when it listens, and ends when its standard input does, however this process ends.
    """

    def __init__(self, *words, **variables):
        self._words, self._variables = words, variables
        self._lasting = ExitStack()
        self._address = None

    @property
    def address(self):
        """The path of its socket."""
        if self._address is None:
            folder = self._lasting.enter_context(tempfile.TemporaryDirectory(prefix="slw-", dir="/tmp"))
            self._address = str(Path(folder, "socket"))
            environment = {**os.environ, **self._variables, "PYTHONPATH": str(ROOT)}
            pipe = subprocess.PIPE
            words = [*self._words, self._address]
            child = subprocess.Popen(words, cwd=ROOT, env=environment, stdin=pipe, stdout=pipe)
            self._lasting.enter_context(child)
            assert child.stdout.readline() == b"ready\n"
        return self._address

    def close(self):
        """End it."""
        self._lasting.close()
