"""Slipway's own commands as processes of the server: the agent gets what a person gets, under the same refusals."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from launcher.agent import safe_json
from launcher.answers.error import ErrorDocument, error_document
from launcher.answers.started import StartedDocument
from launcher.model.errors import ImpossibleError, SlipwayError
from launcher.model.visible_text import visible
from launcher.records.approval import Approval
from launcher.records.codec import Json, as_json
from launcher.records.recent_runs import state_folder

TEXT_BYTES = 40_000
"""The end of a text that an agent gets."""
READ_S = 300
WAIT_S = 20.0
"""Seconds that a call waits for a launch, deployment or removal; then `result` shows it."""
REFUSED = "slipway.error/1"
ERROR, FIX = "error: ", "  fix: "
"""How the lines of a refusal begin on standard error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandOutput:
    """What a command printed: a document, or text; `refused` if it stopped with an error."""

    document: Json | None
    text: str
    refused: bool


def answer_of(words: Sequence[str], folder: Path, *, json: bool) -> CommandOutput:
    """Run a command that reads, and return what it printed."""
    command = [*_program(), *words, *(["--json"] if json else [])]
    try:
        done = subprocess.run(
            command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=READ_S, check=False
        )
    except subprocess.TimeoutExpired:
        problem = SlipwayError(f"slipway {words[0]} did not answer within {READ_S} s", hint="try again later")
        return refusal(problem)
    document = _document(done.stdout) if json else None
    if document is not None:
        return CommandOutput(document=document, text="", refused=document.get("schema") == REFUSED)
    if done.returncode == 0:
        return CommandOutput(document=None, text=_end_of(done.stdout), refused=False)
    return CommandOutput(document=_refusal_of(done.returncode, _end_of(done.stderr)), text="", refused=True)


def _refusal_of(exit_code: int, text: str) -> Json:
    """slipway.error/1 of a command that has no --json, from what it wrote to standard error."""
    lines = text.splitlines()
    start = next((number for number, line in enumerate(lines) if line.startswith(ERROR)), 0)
    hints = [line.removeprefix(FIX) for line in lines if line.startswith(FIX)]
    # Behind the first line: its findings, and the last lines of logs.
    said = "\n".join(line for line in lines[start:] if not line.startswith(FIX)).removeprefix(ERROR).strip()
    message = said or f"it ended with {exit_code}"
    return as_json(ErrorDocument(exit_code=exit_code, message=message, hint=hints[0] if hints else "", findings=()))


def refusal(problem: SlipwayError) -> CommandOutput:
    """A refusal of the server itself."""
    return CommandOutput(document=error_document(problem), text="", refused=True)


@dataclass(slots=True)
class StartedCommands:
    """The commands that one server has started, by the id of their approval.

    Each is a session of its own: it goes on when the agent, and the server with it, has ended.
    """

    running: dict[str, tuple[Approval, "subprocess.Popen[bytes]"]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self, approval: Approval, environment: Mapping[str, str]) -> None:
        """Start the command of an approval, again if an earlier try ended without using the approval.

        Raises:
            ImpossibleError: it runs.
        """
        with self.lock:
            known = self.running.get(approval.id)
            if known is not None and known[1].poll() is None:
                message = f"approval {approval.id} is in use"
                raise ImpossibleError(message, hint=f"result with id {approval.id} shows it")
            self.running[approval.id] = approval, self._process(approval, environment)

    def _process(self, approval: Approval, environment: Mapping[str, str]) -> "subprocess.Popen[bytes]":
        out, err = _files(approval.id, environment)
        out.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = [*(["--sandbox"] if approval.sandbox else []), f"--approval={approval.id}", "--json"]
        words = [*_program(), approval.action.value, approval.file, *flags]
        with open(out, "wb", opener=_private) as printed, open(err, "wb", opener=_private) as said:
            return subprocess.Popen(
                words,
                cwd=approval.folder,
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=said,
                start_new_session=True,
            )

    def wait(self, given: str, environment: Mapping[str, str], seconds: float) -> Json | None:
        """The state of a command, once it has ended or the time is over; None for an unknown id."""
        if given not in self.running:
            return None
        approval, process = self.running[given]
        end = time.monotonic() + seconds
        while process.poll() is None and time.monotonic() < end:
            time.sleep(0.1)
        code = process.returncode
        out, err = _files(given, environment)
        started = StartedDocument(
            id=given,
            action=approval.action.value,
            name=approval.name,
            running=code is None,
            exit_code=code,
            lines=tuple(_end_of(err.read_bytes()).splitlines()[-20:]),
            result=_document(out.read_bytes()) if code is not None else None,
        )
        return as_json(started)


def _program() -> list[str]:
    return [sys.executable, "-P", "-m", "launcher"]


def _files(given: str, environment: Mapping[str, str]) -> tuple[Path, Path]:
    folder = state_folder(environment) / "approvals"
    return folder / f"{given}.out", folder / f"{given}.err"


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _document(printed: bytes) -> Json | None:
    try:
        document = safe_json.loads(printed)
    except ValueError:
        return None
    return document if isinstance(document, dict) else None


def _end_of(printed: bytes) -> str:
    """The end of what was printed, in whole lines, with control characters shown instead of obeyed."""
    text = printed[-TEXT_BYTES:].decode(errors="replace")
    if len(printed) > TEXT_BYTES:
        text = text.partition("\n")[2]
    return visible(text, keep="\t\n")
