"""The processes of a command that train, found in /proc: those that can save when they are sent a signal.

A command is seldom the trainer itself: shells and launchers (torchrun, mpirun, docker) run above it, data workers and
monitors below. Most of them die of SIGUSR1, and a launcher that gets SIGTERM ends its ranks. So only the ranks are sent
a signal, and only one that they catch:

- A process is a rank when its rank variables differ from those of its parent. If local rank 0 is not among the ranks
  that a trainer started, the trainer itself is that rank (Lightning starts ranks 1 and up).
- Without rank variables, a rank is the first process below shells and launchers.
- Processes below a rank are not ranks: data workers, compilers, monitors.

The processes of a container are not below the command (`docker run` is a client). They are found by the variables of
the job in their environment: the agent on the node sees every process of its user in /proc.
"""

import os
import signal
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from launcher.agent.node.process import PARENT, START, STATE, stat_fields

_PROC = Path("/proc")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


RANK_VARIABLES = (
    "LOCAL_RANK",
    "RANK",
    "OMPI_COMM_WORLD_RANK",
    "PMIX_RANK",
    "PMI_RANK",
    "MV2_COMM_WORLD_RANK",
    "SLURM_PROCID",
)
_SHELLS = frozenset({"ash", "bash", "busybox", "dash", "fish", "ksh", "mksh", "sh", "tcsh", "zsh"})
_LAUNCHERS = _words(
    """accelerate accelerate.commands.accelerate_cli accelerate.commands.launch composer composer.cli.launcher conda
    containerd-shim deepspeed deepspeed.launcher.launch deepspeed.launcher.runner docker docker-init dumb-init enroot
    gosu hydra_pmi_proxy hyperpodrun make micromamba mpiexec mpiexec.hydra mpirun ncu neuron_parallel_compile nsys orted
    orterun pipenv pixi podman poetry prted prterun script srun su sudo time timeout tini torch.distributed.launch
    torch.distributed.run torchrun unshare uv uvx xargs"""
)
_EITHER = frozenset({"axolotl", "axolotl.cli.main", "llamafactory-cli", "trl"})
"""They start launchers, or train by themselves."""
_ABOVE = _SHELLS | _LAUNCHERS | _EITHER
_HELPERS = _words(
    """awk aws cat curl dcgmi df dmesg du free gawk grep head htop inotifywait iostat logger mawk mpstat neuron-ls
    neuron-monitor neuron-top nvidia-smi nvtop pidstat rsync s5cmd sar sed sleep ssh tail tee tensorboard top ts vmstat
    wandb-core watch"""
)
_OF_OTHERS = frozenset({"raylet"})
"""Where one of these runs, the ranks are its own, and what the command's process catches says nothing of them."""
_OF_MULTIPROCESSING = ("multiprocessing.", "--multiprocessing-fork")


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One process of a command.

    Attributes:
        pid: Its number.
        parent: Its parent's.
        started: Clock ticks from boot to its start, which with `pid` names it.
        words: Its argument vector.
        rank: Its rank variables, in the order of `RANK_VARIABLES`.
        caught: Signals that it has a handler for.
    """

    pid: int
    parent: int
    started: int
    words: tuple[str, ...]
    rank: tuple[str | None, ...] = (None,) * len(RANK_VARIABLES)
    caught: frozenset[int] = field(default=frozenset())

    @property
    def program(self) -> str:
        """The program's name; of a Python process the script's, or the module's.

        >>> Process(pid=2, parent=1, started=0, words=("/usr/bin/python3", "-u", "-m", "torch.distributed.run")).program
        'torch.distributed.run'
        """
        words = [word for word in self.words if word]
        if not words:
            return ""
        name = _base(words[0])
        if not name.startswith("python"):
            return name.lstrip("-")
        for word, following in zip(words[1:], [*words[2:], ""], strict=True):
            if word == "-m":
                return following
            if word == "-c":
                return name
            if not word.startswith("-"):
                return _base(word)
        return name

    def lives(self) -> bool:
        """Whether it runs still, and its number is not another's by now."""
        return _stat_of(self.pid)[1:] == (self.started,)


def find_processes(root: int, marks: Mapping[str, str]) -> tuple[Process, ...]:
    """A command's processes: those below it, and others that have the variables `marks` in their environment.

    Args:
        root: The command's first process.
        marks: Variables that tell this command's processes from all others of the node.
    """
    parents: dict[int, tuple[int, int]] = {}
    for entry in _PROC.iterdir():
        if entry.name.isdigit() and (found := _stat_of(int(entry.name))):
            parents[int(entry.name)] = found
    below: dict[int, list[int]] = {}
    for pid, (parent, _) in parents.items():
        below.setdefault(parent, []).append(pid)
    wanted, left = set[int](), [root] if root in parents else []
    while left:
        pid = left.pop()
        wanted.add(pid)
        left += below.get(pid, ())
    processes = []
    for pid, (parent, started) in parents.items():
        environment = _environment(pid)
        if pid in wanted or (marks and all(environment.get(name) == value for name, value in marks.items())):
            rank = tuple(environment.get(name) for name in RANK_VARIABLES)
            words, caught = tuple(_strings(pid, "cmdline")), _caught(pid)
            processes.append(Process(pid=pid, parent=parent, started=started, words=words, rank=rank, caught=caught))
    return tuple(processes)


def ranks(processes: Iterable[Process], root: int) -> tuple[Process, ...]:
    """The processes that train, in the order of their numbers; empty where none is there yet.

    Args:
        processes: What `find_processes` found.
        root: The command's first process.
    """
    tree = _Tree(processes)
    if any(process.program in _OF_OTHERS for process in tree.of.values()):
        return ()
    first = tree.of.get(root)
    own = first.rank if first is not None else None
    holders = [each for each in tree.of.values() if tree.has_own_rank(each, own)]
    inner = [each for each in holders if not any(tree.is_above(each, other) for other in holders)]
    if inner:
        found = [process for holder in inner for process in tree.workers(holder)]
        local = {each.rank[0] for each in inner}
        found += [] if local & {None, "0"} else tree.parents(inner)
    else:
        found = [] if first is None else tree.workers(first)
        # A container's processes: the command is only a client of what started them.
        tops = [each for each in tree.of.values() if each.parent not in tree.of and each.pid != root]
        found = found or [process for top in tops for process in tree.workers(top)]
    return tuple(sorted({each.pid: each for each in found}.values(), key=lambda each: each.pid))


class _Tree:
    """Processes by their numbers and their parents."""

    def __init__(self, processes: Iterable[Process]) -> None:
        self.of = {process.pid: process for process in processes}
        self._below: dict[int, list[Process]] = {}
        for process in self.of.values():
            self._below.setdefault(process.parent, []).append(process)

    def has_own_rank(self, process: Process, command: tuple[str | None, ...] | None) -> bool:
        """Whether it was given a rank: its variables are neither the command's nor its parent's."""
        parent = self.of.get(process.parent)
        return (
            any(value is not None for value in process.rank)
            and process.rank != command
            and (parent is None or process.rank != parent.rank)
        )

    def is_above(self, process: Process, other: Process) -> bool:
        above = self.of.get(other.parent)
        while above is not None and above.pid != process.pid:
            above = self.of.get(above.parent)
        return above is not None

    def parents(self, processes: Iterable[Process]) -> list[Process]:
        """Their parents that may be trainers."""
        found = (self.of.get(process.parent) for process in processes)
        return [each for each in found if each is not None and each.program not in _ABOVE]

    def workers(self, process: Process) -> list[Process]:
        """The process itself, or what a shell or launcher has started: not its helpers, not copies of itself."""
        if process.program not in _ABOVE:
            return [process]
        below = [
            each
            for each in self._below.get(process.pid, ())
            if each.program not in _HELPERS
            and each.words
            and each.words != process.words
            and not any(word in text for text in each.words for word in _OF_MULTIPROCESSING)
        ]
        if not below and process.program not in _LAUNCHERS:
            return [process]
        return [worker for each in below for worker in self.workers(each)]


def send(processes: Iterable[Process], number: signal.Signals) -> None:
    """Send a signal to each process that still runs."""
    for process in processes:
        if process.lives():
            try:
                os.kill(process.pid, number)
            except (ProcessLookupError, PermissionError):
                continue  # it has just ended, or became another user's


def _base(path: str) -> str:
    return path.rpartition("/")[2]


def _stat_of(pid: int) -> tuple[int, int] | tuple[()]:
    """Parent and start of a process; empty when it has ended, also as a zombie."""
    fields = stat_fields(pid)
    return () if not fields or fields[STATE] in ("Z", "X") else (int(fields[PARENT]), int(fields[START]))


def _strings(pid: int, name: str) -> list[str]:
    try:
        return _PROC.joinpath(str(pid), name).read_text(encoding="utf-8", errors="surrogateescape").split("\0")
    except OSError:
        return []  # of another user, or ended


def _environment(pid: int) -> dict[str, str]:
    pairs = (text.partition("=") for text in _strings(pid, "environ"))
    return {name: value for name, equals, value in pairs if equals}


def _caught(pid: int) -> frozenset[int]:
    """The signals in SigCgt (proc_pid_status(5): a mask, hexadecimal, bit 0 for signal 1)."""
    for line in "".join(_strings(pid, "status")).splitlines():
        name, _, mask = line.partition(":")
        if name == "SigCgt":
            bits = int(mask, 16)
            return frozenset(number for number in range(1, 65) if bits >> (number - 1) & 1)
    return frozenset()
