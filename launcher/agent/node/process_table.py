"""The processes of a command, found in /proc: below it, or with the variables of the job in their environment."""

import os
import re
import signal
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from launcher.agent.node.process import (
    PARENT,
    START,
    STATE,
    SYSTEM_TICKS,
    USER_TICKS,
    open_files,
    pids,
    proc_file,
    stat_fields,
)

RANK_VARIABLES = (
    "LOCAL_RANK",
    "RANK",
    "OMPI_COMM_WORLD_RANK",
    "PMIX_RANK",
    "PMI_RANK",
    "MV2_COMM_WORLD_RANK",
    "SLURM_PROCID",
)
_CHIP_FILES = re.compile(r"/dev/(nvidia-uvm|neuron\d+)")
"""Device files that a process opens to compute: CUDA opens nvidia-uvm (a monitor by NVML only nvidiactl and the
cards), the Neuron runtime a file of each device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One process of a command.

    Attributes:
        pid: Its process id.
        parent: The process id of its parent.
        started: Clock ticks from boot to its start, which together with `pid` identifies it.
        arguments: Its argument vector.
        rank: Its rank variables, in the order of `RANK_VARIABLES`.
        caught: Signals for which it has a handler.
        has_chip: Whether it computes on an accelerator: it has a chip's device file open.
        worked: Clock ticks of processor time.
    """

    pid: int
    parent: int
    started: int
    arguments: tuple[str, ...]
    rank: tuple[str | None, ...] = (None,) * len(RANK_VARIABLES)
    caught: frozenset[int] = field(default=frozenset())
    has_chip: bool = False
    worked: int = 0

    @property
    def program(self) -> str:
        """The program's name; for a Python process the name of the script or module.

        >>> Process(pid=2, parent=1, started=0, arguments=("python3", "-u", "-m", "torch.distributed.run")).program
        'torch.distributed.run'
        """
        arguments = [word for word in self.arguments if word]
        if not arguments:
            return ""
        # A process that sets its title, such as npm, has one argument with all its words.
        name = _base(arguments[0] if len(arguments) > 1 else arguments[0].partition(" ")[0])
        if not name.startswith("python"):
            return name.lstrip("-")
        for word, following in zip(arguments[1:], [*arguments[2:], ""], strict=True):
            if word == "-m":
                return following
            if word == "-c":
                return name
            if not word.startswith("-"):
                return _base(word)
        return name

    def lives(self) -> bool:
        """Whether the process still runs, and its id does not belong to another process."""
        return _stat_of(self.pid)[1:] == (self.started,)


def find_processes(root: int | None, marks: Mapping[str, str]) -> tuple[Process, ...]:
    """A command's processes: those below `root`, and others with the variables `marks` in their environment."""
    parents: dict[int, tuple[int, int]] = {}
    for pid in pids():
        if stat := _stat_of(pid):
            parents[pid] = stat
    tree = _tree(parents, root)
    entries = {os.fsencode(f"{name}={value}") for name, value in marks.items()}
    return tuple(
        _process(pid, parent, started, environment_of(pid))
        for pid, (parent, started) in parents.items()
        if pid in tree or (entries and entries <= set(proc_file(pid, "environ").split(b"\0")))
    )


def process_of(pid: int) -> Process | None:
    """A process; None if it has ended."""
    stat = _stat_of(pid)
    return _process(pid, *stat, environment_of(pid)) if stat else None


def _process(pid: int, parent: int, started: int, environment: Mapping[str, str]) -> Process:
    return Process(
        pid=pid,
        parent=parent,
        started=started,
        arguments=tuple(_strings(pid, "cmdline")),
        rank=tuple(environment.get(name) for name in RANK_VARIABLES),
        caught=_caught_signals(pid),
        has_chip=any(_CHIP_FILES.fullmatch(path) for _, path in open_files(pid)),
        worked=_cpu_ticks(pid),
    )


def send(processes: Iterable[Process], number: signal.Signals) -> None:
    """Send a signal to each process that still runs."""
    for process in processes:
        if process.lives():
            try:
                os.kill(process.pid, number)
            except (ProcessLookupError, PermissionError):
                continue  # it has just ended, or became another user's


def _tree(parents: Mapping[int, tuple[int, int]], root: int | None) -> set[int]:
    below: dict[int, list[int]] = {}
    for pid, (parent, _) in parents.items():
        below.setdefault(parent, []).append(pid)
    tree, pending = set[int](), [root] if root is not None and root in parents else []
    while pending:
        pid = pending.pop()
        tree.add(pid)
        pending += below.get(pid, ())
    return tree


def _base(path: str) -> str:
    return path.rpartition("/")[2]


def _stat_of(pid: int) -> tuple[int, int] | tuple[()]:
    """Parent and start of a process; empty if it has ended, also as a zombie."""
    fields = stat_fields(pid)
    return () if not fields or fields[STATE] in ("Z", "X") else (int(fields[PARENT]), int(fields[START]))


def _cpu_ticks(pid: int) -> int:
    fields = stat_fields(pid)
    return int(fields[USER_TICKS]) + int(fields[SYSTEM_TICKS]) if fields else 0


def _strings(pid: int, name: str) -> list[str]:
    return proc_file(pid, name).decode("utf-8", errors="surrogateescape").split("\0")


def environment_of(pid: int) -> dict[str, str]:
    """The environment with which a process was started; empty if it has ended, or is another user's."""
    pairs = (text.partition("=") for text in _strings(pid, "environ"))
    return {name: value for name, equals, value in pairs if equals}


def _caught_signals(pid: int) -> frozenset[int]:
    """The signals in SigCgt (proc_pid_status(5): a mask, hexadecimal, bit 0 for signal 1)."""
    for line in "".join(_strings(pid, "status")).splitlines():
        name, _, mask = line.partition(":")
        if name == "SigCgt":
            bits = int(mask, 16)
            return frozenset(number for number in range(1, 65) if bits >> (number - 1) & 1)
    return frozenset()
