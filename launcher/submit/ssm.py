"""A head node over Systems Manager: no key, no open port. Slipway sends commands and polls their results.

Systems Manager returns only the first 24,000 characters of a command's output. Slipway's answers are far shorter: it
reads a file in chunks, and refuses an answer without its end mark (launcher/submit/shell.py).
"""

import base64
import math
import re
import shlex
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from launcher.model.aws_results import Invocation
from launcher.submit.jobs import SchedulerError, UnreachableError
from launcher.submit.session import Sessions
from launcher.submit.shell import PUT_S, RUN_S, Frame, ScriptResult, unpacked_path, unpacking_from

OUTPUT_LIMIT = 24_000
"""Characters of standard output that GetCommandInvocation returns (its API reference, read 2026-11-20)."""
_FIRST_POLL_S, _SLOWER, _LONGEST_S = 0.4, 1.6, 5.0
_DONE = "Success"
_NEVER_RAN = {"DeliveryTimedOut", "Undeliverable", "InvalidPlatform", "AccessDenied"}
_USER = re.compile(r"[a-z_][a-z0-9_-]{0,31}")


class Commands(Protocol):
    """Systems Manager's Run Command for one node (launcher/aws/ssm.py)."""

    def send(self, lines: list[str], timeout_s: int) -> str:
        """Send a shell script, which root runs; return the command's id."""

    def outcome(self, command: str) -> Invocation | None:
        """The result of a command; None if Systems Manager has no record of the command on the node yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SsmShell:
    """A head node that Systems Manager reaches.

    `user` owns the jobs; commands arrive as root. `stage` puts a file where the head node can download it and returns
    its `s3://` URI: a command carries no file.
    """

    name: str
    commands: Commands
    user: str
    stage: Callable[[Path], str]
    sessions: Sessions
    # That of the AWS CLI.
    environment: Mapping[str, str]
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic

    chunk_bytes = 15_000
    """20,000 characters in base64."""
    poll_s = 10.0

    def __post_init__(self) -> None:
        """Refuse an invalid Linux user name."""
        if not _USER.fullmatch(self.user):
            raise SchedulerError(f"not a valid Linux user name: {self.user!r}")

    def run(self, script: str, *, timeout_s: float = RUN_S) -> ScriptResult:
        """Run a bash script in the user's login shell, and poll for its result with growing pauses."""
        frame = Frame.fresh()
        packed = base64.b64encode(frame.wrap(script).encode()).decode()
        line = f"printf %s {packed} | base64 -d | runuser -l {self.user} -c 'exec bash -l -s'"
        command = self.commands.send([line], math.ceil(timeout_s))
        end, pause = self.clock() + timeout_s, _FIRST_POLL_S
        while True:
            self.sleep(pause)
            invocation = self.commands.outcome(command)
            if invocation is not None and invocation.status not in ("Pending", "InProgress", "Delayed", "Cancelling"):
                return self._answer(frame, invocation)
            if self.clock() > end:
                state = "not begun" if invocation is None else invocation.status
                raise UnreachableError(f"{self.name}: command {command} is {state} after {timeout_s:g} s")
            pause = min(pause * _SLOWER, _LONGEST_S)

    def put(self, archive: Path, folder: str) -> str:
        """Unpack an archive into a new folder below the user's home, by way of S3; return its absolute path."""
        return unpacked_path(
            self.run(unpacking_from(self.stage(archive), folder, archive), timeout_s=PUT_S), folder, self.name
        )

    def terminal(self, script: str) -> list[str]:
        """A session on this terminal, which changes from root to the user who owns the jobs."""
        inner = f"exec bash -l -c {shlex.quote(script)}"
        return self.sessions.terminal(f"sudo runuser -l {self.user} -c {shlex.quote(inner)}")

    def direct(self, script: str) -> list[str] | None:
        """None: a session does not return the exit code."""
        del script
        return None

    def forwarding(self, node: str, port: int, local_port: int) -> list[str] | None:
        """A session that forwards a local port through the head node."""
        return self.sessions.forwarding(node, port, local_port)

    def close(self) -> None:
        """Do nothing: the shell keeps no connection."""

    def _answer(self, frame: Frame, invocation: Invocation) -> ScriptResult:
        if invocation.details in _NEVER_RAN:
            hint = "aws ssm describe-instance-information shows whether its agent is online"
            raise SchedulerError(f"{self.name}: the command did not arrive: {invocation.details}", hint=hint)
        if len(invocation.out) >= OUTPUT_LIMIT:
            raise UnreachableError(f"{self.name}: the answer is longer than {OUTPUT_LIMIT:,} characters")
        details = "" if invocation.details == _DONE else invocation.details
        return frame.answer(invocation.out, invocation.err or details, self.name)
