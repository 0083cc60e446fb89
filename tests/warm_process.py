"""A persistent process for tests, which starts once and listens on a socket."""

import os
import subprocess
import tempfile
from contextlib import ExitStack
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


class WarmProcess:
    """Runs `arguments` with the path of its socket as last argument, from its first use until `close`.

    It prints "ready" when it listens, and ends with its standard input, however this process ends. `address`: its
    socket, if another process has started it.
    """

    def __init__(self, *arguments, address=None, **variables):
        self._words, self._variables = arguments, variables
        self._lasting = ExitStack()
        self._address = address

    @property
    def address(self):
        """The path of the process's socket; starts the process at the first use."""
        if self._address is None:
            folder = self._lasting.enter_context(tempfile.TemporaryDirectory(prefix="slw-", dir="/tmp"))
            self._address = str(Path(folder, "socket"))
            environment = {**os.environ, **self._variables, "PYTHONPATH": str(ROOT)}
            pipe = subprocess.PIPE
            command = [*self._words, self._address]
            child = subprocess.Popen(command, cwd=ROOT, env=environment, stdin=pipe, stdout=pipe)
            self._lasting.enter_context(child)
            assert child.stdout.readline() == b"ready\n"
        return self._address

    def close(self):
        """End the process."""
        self._lasting.close()
