"""Runs programs, or records them for a dry run."""

import fcntl
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from launcher.model.errors import ImpossibleError

GRACE_S = 10
_SCRATCH, _LOCK = "slipway-cdk-", ".lock"


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One program to run: its arguments, its folder, and its complete environment."""

    argv: tuple[str, ...]
    cwd: Path
    environment: Mapping[str, str]

    @property
    def text(self) -> str:
        """The command as a user would type it."""
        return " ".join(self.argv)


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """A program that has ended: its exit code and its complete output, both streams in order."""

    code: int
    lines: tuple[str, ...]


class Runner(Protocol):
    """An object that runs commands; `carries_out` tells whether it really runs them."""

    carries_out: bool

    def run(self, command: Command, on_line: Callable[[str], None] | None = None) -> Completed:
        """Run a command to its end; `on_line` receives each line as it comes."""
        ...


class SubprocessRunner:
    """Runs commands as child processes in their own group, which end with the launcher if the user interrupts it.

    Each has a folder for temporary files, deleted with it: jsii and the CDK CLI leave theirs if they are killed.
    """

    carries_out = True

    def run(self, command: Command, on_line: Callable[[str], None] | None = None) -> Completed:
        """Run a command to its end.

        Raises:
            ImpossibleError: the program is not installed.
        """
        with _scratch(Path(command.environment.get("TMPDIR") or tempfile.gettempdir())) as (folder, lock):
            try:
                child = subprocess.Popen(
                    command.argv,
                    cwd=command.cwd,
                    env={**command.environment, "TMPDIR": str(folder)},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    errors="replace",
                    start_new_session=True,
                    pass_fds=(lock,),
                )
            except FileNotFoundError as problem:
                raise ImpossibleError(f"cannot run {command.argv[0]}: no such program") from problem
            return _follow_child(child, on_line)


def _follow_child(child: subprocess.Popen[str], on_line: Callable[[str], None] | None) -> Completed:
    lines: list[str] = []
    with child:
        try:
            for line in child.stdout or ():
                lines.append(line.rstrip("\n"))
                if on_line is not None:
                    on_line(lines[-1])
        except BaseException:
            _end(child)
            raise
        code = child.wait()
    return Completed(code=code, lines=tuple(lines))


@contextmanager
def _scratch(parent: Path) -> Iterator[tuple[Path, int]]:
    """A folder for a child's temporary files, and its lock, which the child holds too.

    Folders whose lock no process holds are deleted first: their commands were killed together with their launcher.
    """
    for old in parent.glob(f"{_SCRATCH}*"):
        if old.lstat().st_uid != os.getuid():
            continue
        with suppress(OSError), (old / _LOCK).open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(old, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=_SCRATCH, dir=parent, ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with (folder / "new").open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            # Locked before it gets its name: another launcher would take an unlocked one for abandoned.
            (folder / "new").rename(folder / _LOCK)
            yield folder, lock.fileno()


def _end(child: subprocess.Popen[str]) -> None:
    """End a child and its group, first by request and then by force."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(child.pid, number)
            child.wait(GRACE_S)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue
        else:
            return


@dataclass(slots=True)
class RecordingRunner:
    """Runs nothing and records the commands: the runner of `--dry-run` and of tests."""

    commands: list[Command] = field(default_factory=list)
    carries_out: bool = False

    def run(self, command: Command, on_line: Callable[[str], None] | None = None) -> Completed:
        """Record a command."""
        self.commands.append(command)
        if on_line is not None:
            on_line(f"would run: {command.text}")
        return Completed(code=0, lines=())
