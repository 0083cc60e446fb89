"""A HyperPod controller over a Systems Manager session, because Run Command does not reach HyperPod's instances.

The AWS CLI opens the session and its plug-in carries it. Commands arrive as root and are run as the user whose jobs
they are, with the folder that all machines share for a home.
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
from typing import IO

from launcher.submit.jobs import SchedulerError, UnreachableError
from launcher.submit.shell import PUT_S, RUN_S, Answer, Frame, placed, program_missing, text, unpacking_from

DOCUMENT = "AWS-StartNonInteractiveCommand"
"""The session document that runs one command and ends (Systems Manager user guide, session types)."""
INTERACTIVE = "AWS-StartInteractiveCommand"
FORWARDING = "AWS-StartPortForwardingSessionToRemoteHost"
"""For a person: one with a terminal, and one that leads a port of this machine on (the same guide)."""
PLUGIN = "session-manager-plugin"
_LEAVING_S = 5.0
"""What a session is given to end by itself once the answer is there."""
_CHUNK = 65536
_USER = re.compile(r"[a-z_][a-z0-9_-]{0,31}")


def connect_command(target: str, region: str) -> str:
    """The command by which a person opens a shell there.

    >>> connect_command("sagemaker-cluster:abc_controller-i-1", "us-east-2")
    'aws ssm start-session --region us-east-2 --target sagemaker-cluster:abc_controller-i-1'
    """
    return f"aws ssm start-session --region {region} --target {shlex.quote(target)}"


def session_words(target: str, region: str, document: str, parameters: Mapping[str, str]) -> list[str]:
    """The AWS CLI's command that opens a session with a document of Systems Manager's."""
    values = json.dumps({name: [value] for name, value in parameters.items()})
    words = ["aws", "ssm", "start-session", "--region", region, "--target", target]
    return [*words, "--document-name", document, "--parameters", values]


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """How a person's own session gets onto a machine: what Systems Manager calls it, and who may open sessions."""

    target: str
    region: str
    environment: Mapping[str, str]

    def terminal(self, line: str) -> list[str]:
        """The session that runs a line there on this terminal.

        Raises:
            SchedulerError: the AWS CLI or its plug-in is not on this machine.
        """
        return self._words(INTERACTIVE, {"command": line})

    def forwarding(self, node: str, port: int, local_port: int) -> list[str]:
        """The session that leads a port of this machine to that of a host which the machine reaches.

        Raises:
            SchedulerError: the AWS CLI or its plug-in is not on this machine.
        """
        return self._words(FORWARDING, {"host": node, "portNumber": str(port), "localPortNumber": str(local_port)})

    def _words(self, document: str, parameters: Mapping[str, str]) -> list[str]:
        refuse_without_programs(self.target, self.region, self.environment)
        return session_words(self.target, self.region, document, parameters)


def refuse_without_programs(target: str, region: str, environment: Mapping[str, str]) -> None:
    """Go on where the AWS CLI and its plug-in are on this machine.

    Raises:
        SchedulerError: one is not; the hint has the command for a shell of one's own.
    """
    lacking = missing_program(environment)
    if lacking is not None:
        hint = f"install it; by hand: {connect_command(target, region)}"
        raise SchedulerError(f"{lacking} is not installed", hint=hint)


def missing_program(environment: Mapping[str, str]) -> str | None:
    """What a session lacks on this machine: the AWS CLI or its plug-in; None where both are there."""
    path = environment.get("PATH")
    return next((program for program in ("aws", PLUGIN) if shutil.which(program, path=path) is None), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionShell:
    """A machine that a session reaches.

    `target` is what Systems Manager calls it; `home` the folder that stands for the user's home; `stage` puts a file
    where the machine can fetch it and returns its `s3://` URI.
    """

    name: str
    target: str
    region: str
    user: str
    home: str
    environment: Mapping[str, str]
    stage: Callable[[Path], str]

    chunk_bytes = 15_000
    look_s = 10.0

    def __post_init__(self) -> None:
        """Refuse what would not be one word of a command, and a machine without the programs."""
        if not _USER.fullmatch(self.user):
            raise SchedulerError(f"not a valid Linux user name: {self.user!r}")
        refuse_without_programs(self.target, self.region, self.environment)

    def run(self, script: str, *, timeout_s: float = RUN_S) -> Answer:
        """Run a bash script in the user's login shell."""
        frame = Frame.fresh()
        packed = base64.b64encode(frame.around(script).encode()).decode()
        line = f"printf %s {packed} | base64 -d | {self._as_user('bash -l -s')}"
        words = session_words(self.target, self.region, DOCUMENT, {"command": line})
        out, err = _run_session(words, self.environment, self.name, timeout_s, frame)
        # A session may end lines as a terminal does.
        return frame.answer(text(out).replace("\r\n", "\n"), text(err), self.name)

    def put(self, archive: Path, folder: str) -> str:
        """Unpack an archive into a new folder below the shared home, by way of S3."""
        return placed(
            self.run(unpacking_from(self.stage(archive), folder, archive), timeout_s=PUT_S), folder, self.name
        )

    def terminal(self, script: str) -> list[str]:
        """A person's session, as the user whose jobs they are."""
        return self._person().terminal(self._as_user(f"bash -l -c {shlex.quote(script)}"))

    def direct(self, script: str) -> list[str] | None:
        """A session passes no exit code on."""
        del script
        return None

    def forwarding(self, node: str, port: int, local_port: int) -> list[str] | None:
        """A person's session, by way of this machine."""
        return self._person().forwarding(node, port, local_port)

    def _person(self) -> Person:
        return Person(target=self.target, region=self.region, environment=self.environment)

    def _as_user(self, command: str) -> str:
        inner = f"mkdir -p {shlex.quote(self.home)}; exec env HOME={shlex.quote(self.home)} {command}"
        return f"runuser -l {self.user} -c {shlex.quote(inner)}"

    def close(self) -> None:
        """Nothing is held."""


def _run_session(
    words: list[str], environment: Mapping[str, str], where: str, timeout_s: float, frame: Frame
) -> tuple[bytes, bytes]:
    """What a session prints on its two outputs, with its input held open until the answer is whole.

    The plug-in ends the session, whatever still runs, as soon as its input is at its end (session-manager-plugin,
    shellsession_unix.go, handleKeyboardInput). It is a child of the AWS CLI: both are a process group of their own.
    """
    try:
        session = subprocess.Popen(
            words,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise program_missing(words[0], error) from error
    with session:
        try:
            heard = _read_until(session, time.monotonic() + timeout_s, frame)
            if heard is None:
                raise UnreachableError(f"{where}: no answer within {timeout_s:g} s")
            # Let a session end: it is at the end of its input now, and has said all that counts
            try:
                session.communicate(timeout=_LEAVING_S)
            except subprocess.TimeoutExpired:
                _kill(session)
            return heard
        finally:
            _kill(session)


def _read_until(session: subprocess.Popen[bytes], deadline: float, frame: Frame) -> tuple[bytes, bytes] | None:
    """What both outputs gave until the answer was whole or they ended; None where that was not before the deadline."""
    assert session.stdout is not None  # noqa: S101 - both are pipes
    assert session.stderr is not None  # noqa: S101
    heard: dict[IO[bytes], bytearray] = {session.stdout: bytearray(), session.stderr: bytearray()}
    with selectors.DefaultSelector() as selector:
        for stream in heard:
            selector.register(stream, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(max(deadline - time.monotonic(), 0))
            if not ready:
                return None
            for key, _ in ready:
                output = next(readable for readable in heard if readable is key.fileobj)
                chunk = os.read(key.fd, _CHUNK)
                heard[output] += chunk
                if not chunk:
                    selector.unregister(output)
            if frame.is_whole(bytes(heard[session.stdout][-2 * _CHUNK :])):
                break
    return bytes(heard[session.stdout]), bytes(heard[session.stderr])


def _kill(session: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(session.pid, signal.SIGKILL)
