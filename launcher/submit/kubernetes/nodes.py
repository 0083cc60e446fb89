"""Access to the pods of a job through the Kubernetes API: exec and port-forward over WebSockets.

Needs the rights `pods/exec` and `pods/portforward`, which AmazonEKSEditPolicy has (EKS user guide, access policy
permissions, read 2026-11-23).
"""

import contextlib
import json
import os
import select
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from launcher.agent import safe_json
from launcher.submit.jobs import SchedulerError
from launcher.submit.kubernetes.connection import Connection, message
from launcher.submit.nodes import forward_port

_STDIN, _STDOUT, _STDERR, _ERROR, _RESIZE = range(5)
_POLL_S = 0.2
_PIECE = 65536
_SHELL = ("sh", "-c", "command -v bash >/dev/null && exec bash -l || exec sh -l")


@dataclass(frozen=True, slots=True, kw_only=True)
class PodNodes:
    """The pods of a job in the order of their ranks, by the names of their nodes in the cluster."""

    connection: Connection
    namespace: str
    pods: tuple[tuple[str, str], ...]
    """Pairs of node name and pod name."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the nodes."""
        return tuple(node for node, _ in self.pods)

    def shell(self, node: str) -> int:
        """Open a shell in a node's pod, on this terminal; return its exit code."""
        with _raw_terminal() as is_terminal:
            return self._execute(node, _SHELL, tty=is_terminal, stdin=True)

    def run(self, node: str, command: Sequence[str]) -> int:
        """Run a command in a node's pod; return its exit code."""
        return self._execute(node, command, tty=False, stdin=False)

    def read(self, node: str, command: Sequence[str]) -> str:
        """The output of a short command in a node's pod."""
        channels = self.connection.execute(self.namespace, self._pod(node), command, tty=False, stdin=False)
        output, errors = bytearray(), bytearray()
        try:
            while channels.is_open():
                channels.update(timeout=_POLL_S)
                # The client answers with an empty text, not with empty bytes, if there is nothing.
                output += channels.read_channel(_STDOUT, timeout=0) or b""
                errors += channels.read_channel(_STDERR, timeout=0) or b""
            code = self._code(channels.read_channel(_ERROR))
        finally:
            channels.close()
            channels.sock.shutdown()  # as below
        if code:
            reason = errors.decode(errors="replace").strip() or f"exit {code}"
            raise SchedulerError(f"{node}: {command[0]}: {reason}")
        return output.decode(errors="replace")

    def tunnel(self, node: str, port: int, local_port: int, ready: Callable[[], None]) -> int:
        """Forward a local port to a port of a node's pod; every connection goes through the API."""
        return forward_port(local_port, lambda: self.connection.forward(self.namespace, self._pod(node), port), ready)

    def _pod(self, node: str) -> str:
        return next(pod for name, pod in self.pods if name == node)

    def _execute(self, node: str, command: Sequence[str], *, tty: bool, stdin: bool) -> int:
        stream_options = {"tty": tty, "stdin": stdin}
        channels = self.connection.execute(self.namespace, self._pod(node), command, **stream_options)
        try:
            _exchange(channels, tty=tty, stdin=stdin)
            return self._code(channels.read_channel(_ERROR))
        finally:
            channels.close()
            channels.sock.shutdown()  # where the other side closed it, the client leaves it open

    def _code(self, status_bytes: bytes) -> int:
        try:
            status = safe_json.loads(status_bytes)
            if status["status"] == "Success":
                return 0
            return next(int(cause["message"]) for cause in status["details"]["causes"] if cause["reason"] == "ExitCode")
        except (KeyError, TypeError, ValueError, StopIteration) as problem:
            why = message(status_bytes) or "the session was interrupted"
            hint = "slipway status NAME shows its state"
            if why.startswith("exec: "):
                hint = "the pod runs programs of its image; shell built-ins need: slipway exec NAME -- sh -c COMMAND"
            raise SchedulerError(f"{self.connection.name}: {why}", hint=hint) from problem


def _exchange(channels: Any, *, tty: bool, stdin: bool) -> None:
    """Copy data in both directions until the command has ended."""
    typed, size = sys.stdin.fileno() if stdin else None, None
    while channels.is_open():
        if tty and size != (now := shutil.get_terminal_size()):
            size = now
            channels.write_channel(_RESIZE, json.dumps({"Width": size.columns, "Height": size.lines}).encode())
        waited = [channels.sock.sock, *([typed] if typed is not None else [])]
        ready, _, _ = select.select(waited, [], [], _POLL_S)
        if typed in ready:
            data = os.read(int(str(typed)), _PIECE)
            if data:
                channels.write_channel(_STDIN, data)
            else:
                typed = None  # v4 of the protocol cannot say that the input is at its end
        channels.update(timeout=0)
        for channel, stream in ((_STDOUT, sys.stdout), (_STDERR, sys.stderr)):
            if data := channels.read_channel(channel, timeout=0):
                stream.buffer.write(data)
                stream.buffer.flush()


@contextlib.contextmanager
def _raw_terminal() -> Iterator[bool]:
    """Whether this is a terminal; if so, every key goes to the remote shell, including Ctrl-C."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        yield False
        return
    import termios  # noqa: PLC0415 - only where there is a terminal
    import tty  # noqa: PLC0415 - the same

    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setraw(sys.stdin)
        yield True
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
