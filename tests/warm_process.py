"""A persistent process for tests, which starts once and listens on a socket."""

import fcntl
import os
import subprocess
import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


class WarmProcess:
    """Runs `arguments` with the path of its socket as last argument, from its first use until `close`.

    It prints "ready" when it listens, and ends with its standard input, however this process ends. `address`: its
    socket, if another process has started it. All users of a `place` use one process, which ends with `shared_places`.
    """

    def __init__(self, *arguments, address=None, place=None, **variables):
        self._words, self._variables, self._place = arguments, variables, place
        self._lasting = ExitStack()
        self._address = address

    @property
    def address(self):
        """The path of the process's socket; starts the process at the first use."""
        if self._address is None and self._place is not None:
            self._address = self._shared_address(Path(self._place))
        elif self._address is None:
            folder = self._lasting.enter_context(tempfile.TemporaryDirectory(prefix="slw-", dir="/tmp"))
            self._address = str(Path(folder, "socket"))
            self._lasting.enter_context(self._start(self._address, subprocess.PIPE))
        return self._address

    def _shared_address(self, place):
        """The path of a place's socket; starts its process unless another user has."""
        address, ready = place / "socket", place / "ready"
        with (place / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not ready.exists():
                address.unlink(missing_ok=True)
                with (place / "pipe").open("rb") as pipe:
                    child = self._start(str(address), pipe)
                child.stdout.close()
                child.returncode = 0  # not waited for: it may end after this process
                ready.touch()
        return str(address)

    def _start(self, address, stdin):
        environment = {**os.environ, **self._variables, "PYTHONPATH": str(ROOT)}
        child = subprocess.Popen(
            [*self._words, address], cwd=ROOT, env=environment, stdin=stdin, stdout=subprocess.PIPE
        )
        assert child.stdout.readline() == b"ready\n"
        return child

    def close(self):
        """End the process, unless it is shared."""
        self._lasting.close()


@contextmanager
def shared_places(*names):
    """A folder with places of processes that several processes share; the processes end with the block, or its process.

    The standard input of a place's process is a named pipe that only this process holds open for writing.
    """
    with tempfile.TemporaryDirectory(prefix="slw-", dir="/tmp") as folder, ExitStack() as held:
        for name in names:
            place = Path(folder, name)
            place.mkdir()
            os.mkfifo(place / "pipe")
            held.callback(os.close, os.open(place / "pipe", os.O_RDWR))
        yield folder
