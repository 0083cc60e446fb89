"""Running programs: for real, or recorded for a dry run."""

import os
import signal
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from launcher.model.errors import ImpossibleError

GRACE_S = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One program to run: its arguments, its folder, and its whole environment."""

    argv: tuple[str, ...]
    cwd: Path
    environment: Mapping[str, str]

    @property
    def text(self) -> str:
        """The command as a person would type it."""
        return " ".join(self.argv)


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """A program that has ended: its exit code and all it printed, both streams in order."""

    code: int
    lines: tuple[str, ...]


class Runner(Protocol):
    """Something that runs commands; `carries_out` says whether it really does."""

    carries_out: bool

    def run(self, command: Command, on_line: Callable[[str], None] | None = None) -> Completed:
        """Run a command to its end; `on_line` is told each line as it comes."""
        ...


class SubprocessRunner:
    """Runs commands as child processes of their own group, which go with us when we are interrupted."""

    carries_out = True

    def run(self, command: Command, on_line: Callable[[str], None] | None = None) -> Completed:
        """Run a command to its end.

        Raises:
            ImpossibleError: the program is not there.
        """
        try:
            child = subprocess.Popen(
                command.argv,
                cwd=command.cwd,
                env=dict(command.environment),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                start_new_session=True,
            )
        except FileNotFoundError as problem:
            raise ImpossibleError(f"cannot run {command.argv[0]}: no such program") from problem
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


def _end(child: subprocess.Popen[str]) -> None:
    """End a child and its group, first asked and then made to."""
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
    """Runs nothing and remembers what was asked: the runner of `--dry-run` and of tests."""

    commands: list[Command] = field(default_factory=list)
    carries_out: bool = False

    def run(self, command: Command, on_line: Callable[[str], None] | None = None) -> Completed:
        """Remember a command."""
        self.commands.append(command)
        if on_line is not None:
            on_line(f"would run: {command.text}")
        return Completed(code=0, lines=())
