"""The server's process and its keeper, as their owner controls them: both start and end together.

The owner holds the server's standard input; the server holds the keeper's. If the owner ends, for any reason, the
server shuts down. If the server ends, for any reason, the keeper kills the remaining processes of the sandbox and
removes its folder. After `leave`, the server runs without an owner until it receives a stop request.
"""

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from launcher.agent import safe_json
from launcher.model.emulator import MARK
from launcher.model.errors import AwsError, ImpossibleError
from launcher.sandbox import environment
from launcher.sandbox.control import ControlClient
from launcher.sandbox.keeper import remove
from launcher.sandbox.keys import AccessKey
from launcher.sandbox.server import DETACH, PORT_TAKEN, READY

_SHORT = 20
"""Maximum length of a folder's path in characters, so that the sockets of Slurm below it stay within 108 bytes."""
_START_S = 60.0
_STOP_S = 60.0
_POLL_S = 0.02
_LOG_LINES = 15


class EmbeddedServer:
    """One embedded AWS. `folder` is private and removed with it; `short` is a short path to the folder, for sockets."""

    def __init__(self, *, mark: str, port: int, with_slurm: bool) -> None:
        """Create the folder and start both processes; `wait` returns when they are ready. `port` 0: any free port."""
        self.folder = Path(tempfile.mkdtemp(prefix="slw-"))
        link = None if _is_short(self.folder) else link_of(mark)
        if link is not None:
            link.symlink_to(self.folder)
        self.short = link or self.folder
        self._paths = [self.folder, *([link] if link is not None else [])]
        # Read by its descriptor: when the server is gone the keeper removes the folder, and the file's name with it.
        self._log = (self.folder / environment.SERVER_LOG).open("w+b", buffering=0)
        arguments = ["--folder", str(self.folder), "--short", str(self.short), "--mark", mark, "--port", str(port)]
        arguments.append("--slurm" if with_slurm else "--no-slurm")
        variables = {**environment.machine_environment(os.environ), MARK: mark}
        reader, writer = os.pipe()
        with os.fdopen(reader, "rb") as reading, os.fdopen(writer, "wb") as writing:
            self._keeper = _start("keeper", [mark, *map(str, self._paths)], reading, self._log, variables)
            self._server = _start(
                "server", arguments, subprocess.PIPE, self._log, variables, inherited=(writing.fileno(),)
            )

    def wait(self) -> tuple[int, ControlClient, AccessKey]:
        """Wait until the server answers; return the port of its AWS, its control client, and its access key.

        Raises:
            ImpossibleError: the requested port is taken.
            AwsError: the server ended or does not start.
        """
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline:
            if (self.folder / READY).is_file():
                ready = self.ready()
                key = AccessKey(id=ready["key_id"], secret=ready["key_secret"])
                return ready["port"], ControlClient(ready["control"], ready["secret"]), key
            if self._server.poll() is not None:
                if self._server.returncode == PORT_TAKEN:
                    why = self.end_of_log().splitlines()[-1]
                    raise ImpossibleError(
                        why, hint="set another port, or leave it out: the sandbox then uses a free port"
                    )
                raise AwsError(f"the embedded AWS ended unexpectedly: {self.end_of_log()}")
            time.sleep(_POLL_S)
        raise AwsError(f"the embedded AWS is not ready after {_START_S:g} s: {self.end_of_log()}")

    def ready(self) -> dict[str, Any]:
        """The server's own description: `port`, `pid`, `control`, `secret`, `key_id`, `key_secret`."""
        document: dict[str, Any] = safe_json.load(self.folder / READY)
        return document

    def detach(self) -> None:
        """Let the server run after this process has ended; before this call, the server ends with this process."""
        stdin = self._server.stdin
        if stdin is not None:
            with stdin:
                stdin.write(DETACH)
        self._log.close()
        for process in (self._server, self._keeper):
            # Not ours to wait for any more, and no fault.
            process.returncode = 0

    def begin_to_stop(self) -> None:
        """Start the end of the server; from then on it ends even if this process ends first."""
        if self._server.stdin is not None:
            with contextlib.suppress(OSError):
                self._server.stdin.close()

    def stop(self) -> None:
        """End both processes and remove the folder."""
        self.begin_to_stop()
        for process in (self._server, self._keeper):
            try:
                process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._log.close()
        remove(self._paths)

    def end_of_log(self) -> str:
        """The last lines of the server's log; empty after an orderly end."""
        if self._log.closed:
            return ""
        text = os.pread(self._log.fileno(), os.fstat(self._log.fileno()).st_size, 0).decode(errors="replace")
        return "\n".join(text.splitlines()[-_LOG_LINES:]) or "its log is empty"


def link_of(mark: str) -> Path:
    """The short path to a sandbox's folder whose own path is too long."""
    return Path("/tmp", f"slw-{mark[:8]}")  # noqa: S108  a link, and unguessable


def _is_short(folder: Path) -> bool:
    return len(str(folder)) <= _SHORT and not any(character.isspace() for character in str(folder))


def _start(
    module: str, arguments: list[str], stdin: Any, log: Any, env: Mapping[str, str], *, inherited: tuple[int, ...] = ()
) -> "subprocess.Popen[bytes]":
    """Start a module of this package in its own session, so that the terminal's Ctrl-C does not reach it."""
    return subprocess.Popen(
        [sys.executable, "-P", "-m", f"launcher.sandbox.{module}", *arguments],
        stdin=stdin,
        stdout=log,
        stderr=log,
        start_new_session=True,
        pass_fds=inherited,
        env=env,
    )
