"""The command that created a run folder, and its result; a killed command leaves only this record."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from launcher.agent.shape import read
from launcher.model.errors import SlipwayError
from launcher.records.run_folder import COMMAND, RunFolder

INTERRUPTED, FAILED, KILLED, RUNNING = "interrupted", "failed", "killed", "running"
_SANDBOX = " --sandbox"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRecord:
    """One command: its words, its local process id, and its result, None if not recorded yet.

    `problem` is the message of the error that ended it.
    """

    command: str
    pid: int
    ended: str | None
    problem: str | None = None

    @property
    def sandbox(self) -> bool:
        """Whether the command used a sandbox: it has no resources in an account."""
        return self.command.endswith(_SANDBOX)

    @property
    def state(self) -> str:
        """The result of the command; "running" while its process exists, "killed" if it ended without a result."""
        if self.ended is not None:
            return self.ended
        return RUNNING if _is_there(self.pid) else KILLED


@contextmanager
def recorded_command(folder: RunFolder, command: str, *, sandbox: bool = False, done: str) -> Iterator[None]:
    """A block whose start and end are recorded in a run folder.

    Args:
        folder: the run folder.
        command: the typed command, without its file and options: "deploy".
        sandbox: whether it uses a sandbox, which is recorded with it: "deploy --sandbox".
        done: the recorded result after success.
    """
    typed = command + _SANDBOX if sandbox else command
    facts = {"command": typed, "pid": os.getpid(), "started_at": datetime.now(UTC).isoformat()}

    def write(ended: str | None, problem: str | None = None) -> None:
        folder.write_json(COMMAND, {"schema": "slipway.command/1", **facts, "ended": ended, "problem": problem})

    write(None)
    try:
        yield
    except KeyboardInterrupt:
        write(INTERRUPTED)
        raise
    except SlipwayError as error:
        error.name_subject(folder.path.parent.name)
        write(FAILED, error.message)
        raise
    write(done)


def read_command(folder: RunFolder) -> CommandRecord | None:
    """The command of a run folder; None if no command was recorded."""
    if not (folder.path / COMMAND).is_file():
        return None
    document = folder.read_json(COMMAND)
    try:
        return read(CommandRecord, document)
    except ValueError:
        return None


def goes_on(folder: RunFolder) -> bool:
    """Whether the command that created a run folder is running on this computer."""
    record = read_command(folder)
    return record is not None and record.state == RUNNING


def _is_there(pid: int) -> bool:
    """Whether a local process exists and is not a zombie."""
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    state = Path(f"/proc/{pid}/stat")
    try:
        return ") Z " not in state.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return True
