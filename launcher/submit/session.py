"""A HyperPod controller over a Systems Manager session, because Run Command does not reach HyperPod's instances.

The AWS CLI opens the session and its plug-in carries the data. Commands arrive as root. Slipway runs them as the user
who owns the jobs, with the folder that all nodes share as home.
"""

import base64
import contextlib
import json
import os
import re
import selectors
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

from launcher.submit.jobs import SchedulerError, UnreachableError
from launcher.submit.shell import (
    PUT_S,
    RUN_S,
    Frame,
    ScriptResult,
    program_missing,
    text,
    unpacked_path,
    unpacking_from,
)

DOCUMENT = "AWS-StartNonInteractiveCommand"
"""The session document that runs one command and ends (Systems Manager user guide, session types)."""
INTERACTIVE = "AWS-StartInteractiveCommand"
FORWARDING = "AWS-StartPortForwardingSessionToRemoteHost"
"""Documents for the user's sessions: one with a terminal, one that forwards a local port (the same guide)."""
PLUGIN = "session-manager-plugin"
_GUIDES = "https://docs.aws.amazon.com"
INSTALLATION = {
    "aws": f"{_GUIDES}/cli/latest/userguide/getting-started-install.html",
    PLUGIN: f"{_GUIDES}/systems-manager/latest/userguide/session-manager-working-with-install-plugin.html",
}
"""Where AWS says how to install the programs of a session."""
_LEAVING_S = 5.0
"""The time for a session to end after its answer arrived."""
_CHUNK = 65536
_USER = re.compile(r"[a-z_][a-z0-9_-]{0,31}")


def connect_command(target: str, region: str) -> str:
    """The command by which a user opens a shell on an instance.

    >>> connect_command("sagemaker-cluster:abc_controller-i-1", "us-east-2")
    'aws ssm start-session --region us-east-2 --target sagemaker-cluster:abc_controller-i-1'
    """
    return f"aws ssm start-session --region {region} --target {shlex.quote(target)}"


def session_command(target: str, region: str, document: str, parameters: Mapping[str, str]) -> list[str]:
    """The AWS CLI's command that opens a session with a Systems Manager document."""
    values = json.dumps({name: [value] for name, value in parameters.items()})
    command = ["aws", "ssm", "start-session", "--region", region, "--target", target]
    return [*command, "--document-name", document, "--parameters", values]


class Sessions(Protocol):
    """A user's own sessions with an instance."""

    def terminal(self, line: str) -> list[str]:
        """The program that runs a command line on the instance, on this terminal."""

    def forwarding(self, node: str, port: int, local_port: int) -> list[str] | None:
        """The program that forwards a local port to a port of a host that the instance reaches; None: it is local."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserSession:
    """The data for a user's own session: the instance's Systems Manager target, and the environment of the AWS CLI."""

    target: str
    region: str
    environment: Mapping[str, str]

    def terminal(self, line: str) -> list[str]:
        """The session that runs a command line on the instance, on this terminal.

        Raises:
            SchedulerError: the AWS CLI or its plug-in is not installed on this computer.
        """
        return self._command(INTERACTIVE, {"command": line})

    def forwarding(self, node: str, port: int, local_port: int) -> list[str]:
        """The session that forwards a local port to a port of a host that the instance reaches.

        Raises:
            SchedulerError: the AWS CLI or its plug-in is not installed on this computer.
        """
        return self._command(FORWARDING, {"host": node, "portNumber": str(port), "localPortNumber": str(local_port)})

    def _command(self, document: str, parameters: Mapping[str, str]) -> list[str]:
        refuse_without_programs(self.target, self.region, self.environment)
        return session_command(self.target, self.region, document, parameters)


def refuse_without_programs(target: str, region: str, environment: Mapping[str, str]) -> None:
    """Require the AWS CLI and its plug-in on this computer.

    Raises:
        SchedulerError: one of the two is missing; the hint has the command that opens a shell by hand.
    """
    lacking = missing_program(environment)
    if lacking is not None:
        hint = f"install it: {INSTALLATION[lacking]}; then again, or by hand: {connect_command(target, region)}"
        raise SchedulerError(f"{lacking} is not installed", hint=hint)


def missing_program(environment: Mapping[str, str]) -> str | None:
    """The program that a session lacks on this computer: the AWS CLI or its plug-in; None if both are installed."""
    path = environment.get("PATH")
    return next((program for program in ("aws", PLUGIN) if shutil.which(program, path=path) is None), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionShell:
    """A node that a session reaches."""

    name: str
    # Its target in Systems Manager.
    target: str
    region: str
    user: str
    # Replaces the user's home folder.
    home: str
    environment: Mapping[str, str]
    # Puts a file where the node can download it, and returns its `s3://` URI.
    stage: Callable[[Path], str]

    chunk_bytes = 15_000
    poll_s = 10.0

    def __post_init__(self) -> None:
        """Refuse an invalid user name, and a computer without the AWS CLI and its plug-in."""
        if not _USER.fullmatch(self.user):
            raise SchedulerError(f"not a valid Linux user name: {self.user!r}")
        refuse_without_programs(self.target, self.region, self.environment)

    def run(self, script: str, *, timeout_s: float = RUN_S) -> ScriptResult:
        """Run a bash script in the user's login shell."""
        frame = Frame.fresh()
        packed = base64.b64encode(frame.wrap(script).encode()).decode()
        line = f"printf %s {packed} | base64 -d | {self._as_user('bash -l -s')}"
        command = session_command(self.target, self.region, DOCUMENT, {"command": line})
        out, err = _run_session(command, self.environment, self.name, timeout_s, frame)
        # A session may end lines as a terminal does.
        return frame.answer(text(out).replace("\r\n", "\n"), text(err), self.name)

    def put(self, archive: Path, folder: str) -> str:
        """Unpack an archive into a new folder below the shared home, by way of S3; return its absolute path."""
        return unpacked_path(
            self.run(unpacking_from(self.stage(archive), folder, archive), timeout_s=PUT_S), folder, self.name
        )

    def terminal(self, script: str) -> list[str]:
        """A session on this terminal, as the user who owns the jobs."""
        return self._person().terminal(self._as_user(f"bash -l -c {shlex.quote(script)}"))

    def direct(self, script: str) -> list[str] | None:
        """None: a session does not return the exit code."""
        del script
        return None

    def forwarding(self, node: str, port: int, local_port: int) -> list[str] | None:
        """A session that forwards a local port through this node."""
        return self._person().forwarding(node, port, local_port)

    def _person(self) -> UserSession:
        return UserSession(target=self.target, region=self.region, environment=self.environment)

    def _as_user(self, command: str) -> str:
        inner = f"mkdir -p {shlex.quote(self.home)}; exec env HOME={shlex.quote(self.home)} {command}"
        return f"runuser -l {self.user} -c {shlex.quote(inner)}"

    def close(self) -> None:
        """Do nothing: the shell keeps no connection."""


def _run_session(
    command: list[str], environment: Mapping[str, str], where: str, timeout_s: float, frame: Frame
) -> tuple[bytes, bytes]:
    """Run a session, keep its input open until the answer is complete, and return both outputs.

    The plug-in ends the session as soon as its input ends, even if a command still runs (session-manager-plugin,
    shellsession_unix.go, handleKeyboardInput). The plug-in is a child of the AWS CLI: both form one process group.
    """
    try:
        session = subprocess.Popen(
            command,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise program_missing(command[0], error) from error
    with session:
        try:
            outputs = _read_until(session, time.monotonic() + timeout_s, frame)
            if outputs is None:
                raise UnreachableError(f"{where}: no answer within {timeout_s:g} s")
            # Let the session end: its input is closed, and its output is complete
            try:
                session.communicate(timeout=_LEAVING_S)
            except subprocess.TimeoutExpired:
                _kill(session)
            return outputs
        finally:
            _kill(session)


def _read_until(session: subprocess.Popen[bytes], deadline: float, frame: Frame) -> tuple[bytes, bytes] | None:
    """Both outputs up to the complete answer or the end of the session; None if the deadline came earlier."""
    assert session.stdout is not None  # noqa: S101 - both are pipes
    assert session.stderr is not None  # noqa: S101
    received: dict[IO[bytes], bytearray] = {session.stdout: bytearray(), session.stderr: bytearray()}
    with selectors.DefaultSelector() as selector:
        for stream in received:
            selector.register(stream, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(max(deadline - time.monotonic(), 0))
            if not ready:
                return None
            for key, _ in ready:
                output = next(readable for readable in received if readable is key.fileobj)
                chunk = os.read(key.fd, _CHUNK)
                received[output] += chunk
                if not chunk:
                    selector.unregister(output)
            if frame.is_complete(bytes(received[session.stdout][-2 * _CHUNK :])):
                break
    return bytes(received[session.stdout]), bytes(received[session.stderr])


def _kill(session: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(session.pid, signal.SIGKILL)
