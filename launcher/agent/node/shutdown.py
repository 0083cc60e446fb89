"""The end of a command: a signal to the ranks to save, then SIGTERM, then SIGKILL."""

import os
import signal
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from launcher.agent.events import EventLog
from launcher.agent.node.process import PARENT, START, STATE, Command, stat_fields

# The processes of a command that train, found in /proc: those that can save when they are sent a signal.
#
# A command is seldom the trainer itself: shells and launchers (torchrun, mpirun, docker) run above it, data workers
# and monitors below. Most of them die of SIGUSR1, and a launcher that gets SIGTERM ends its ranks. So only the ranks
# are sent a signal, and only one that they catch:
#
# - A process is a rank when its rank variables differ from those of its parent. If local rank 0 is not among the ranks
#   that a trainer started, the trainer itself is that rank (Lightning starts ranks 1 and up).
# - Without rank variables, a rank is the first process below shells and launchers.
# - Processes below a rank are not ranks: data workers, compilers, monitors.
#
# The processes of a container are not below the command (`docker run` is a client). They are found by the variables
# of the job in their environment: the agent on the node sees every process of its user in /proc.


_PROC = Path("/proc")


def _tokens(text: str) -> frozenset[str]:
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
_LAUNCHERS = _tokens(
    """accelerate accelerate.commands.accelerate_cli accelerate.commands.launch composer composer.cli.launcher conda
    containerd-shim deepspeed deepspeed.launcher.launch deepspeed.launcher.runner docker docker-init dumb-init enroot
    gosu hydra_pmi_proxy hyperpodrun make micromamba mpiexec mpiexec.hydra mpirun ncu neuron_parallel_compile nsys orted
    orterun pipenv pixi podman poetry prted prterun script srun su sudo time timeout tini torch.distributed.launch
    torch.distributed.run torchrun unshare uv uvx xargs"""
)
_EITHER = frozenset({"axolotl", "axolotl.cli.main", "llamafactory-cli", "trl"})
"""Programs that start launchers, or train themselves."""
_ABOVE = _SHELLS | _LAUNCHERS | _EITHER
_HELPERS = _tokens(
    """awk aws cat curl dcgmi df dmesg du free gawk grep head htop inotifywait iostat logger mawk mpstat neuron-ls
    neuron-monitor neuron-top nvidia-smi nvtop pidstat rsync s5cmd sar sed sleep ssh tail tee tensorboard top ts vmstat
    wandb-core watch"""
)
_OF_OTHERS = frozenset({"raylet"})
"""If one of these runs, the ranks belong to it; the signals that the command's processes catch prove nothing."""
_OF_MULTIPROCESSING = ("multiprocessing.", "--multiprocessing-fork")


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One process of a command.

    Attributes:
        pid: Its process id.
        parent: The process id of its parent.
        started: Clock ticks from boot to its start, which together with `pid` identifies it.
        words: Its argument vector.
        rank: Its rank variables, in the order of `RANK_VARIABLES`.
        caught: Signals for which it has a handler.
    """

    pid: int
    parent: int
    started: int
    arguments: tuple[str, ...]
    rank: tuple[str | None, ...] = (None,) * len(RANK_VARIABLES)
    caught: frozenset[int] = field(default=frozenset())

    @property
    def program(self) -> str:
        """The program's name; for a Python process the name of the script or module.

        >>> Process(pid=2, parent=1, started=0, arguments=("python3", "-u", "-m", "torch.distributed.run")).program
        'torch.distributed.run'
        """
        arguments = [word for word in self.arguments if word]
        if not arguments:
            return ""
        name = _base(arguments[0])
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


def find_processes(root: int, marks: Mapping[str, str]) -> tuple[Process, ...]:
    """A command's processes: those below it, and others with the variables `marks` in their environment."""
    parents: dict[int, tuple[int, int]] = {}
    for entry in _PROC.iterdir():
        if entry.name.isdigit() and (stat := _stat_of(int(entry.name))):
            parents[int(entry.name)] = stat
    below: dict[int, list[int]] = {}
    for pid, (parent, _) in parents.items():
        below.setdefault(parent, []).append(pid)
    tree, pending = set[int](), [root] if root in parents else []
    while pending:
        pid = pending.pop()
        tree.add(pid)
        pending += below.get(pid, ())
    processes = []
    for pid, (parent, started) in parents.items():
        environment = _environment(pid)
        if pid in tree or (marks and all(environment.get(name) == value for name, value in marks.items())):
            rank = tuple(environment.get(name) for name in RANK_VARIABLES)
            arguments, caught = tuple(_strings(pid, "cmdline")), _caught(pid)
            processes.append(
                Process(pid=pid, parent=parent, started=started, arguments=arguments, rank=rank, caught=caught)
            )
    return tuple(processes)


def ranks(processes: Iterable[Process], root: int) -> tuple[Process, ...]:
    """The processes that train, in the order of their ids; empty while none exists."""
    tree = _Tree(processes)
    if any(process.program in _OF_OTHERS for process in tree.of.values()):
        return ()
    first = tree.of.get(root)
    rank = first.rank if first is not None else None
    holders = [process for process in tree.of.values() if tree.has_own_rank(process, rank)]
    inner = [process for process in holders if not any(tree.is_above(process, other) for other in holders)]
    if inner:
        workers = [process for holder in inner for process in tree.workers(holder)]
        local = {process.rank[0] for process in inner}
        workers += [] if local & {None, "0"} else tree.parents(inner)
    else:
        workers = [] if first is None else tree.workers(first)
        # A container's processes: the command is only a client of what started them.
        tops = [process for process in tree.of.values() if process.parent not in tree.of and process.pid != root]
        workers = workers or [process for top in tops for process in tree.workers(top)]
    return tuple(sorted({process.pid: process for process in workers}.values(), key=lambda process: process.pid))


class _Tree:
    def __init__(self, processes: Iterable[Process]) -> None:
        self.of = {process.pid: process for process in processes}
        self._below: dict[int, list[Process]] = {}
        for process in self.of.values():
            self._below.setdefault(process.parent, []).append(process)

    def has_own_rank(self, process: Process, command: tuple[str | None, ...] | None) -> bool:
        """Whether the process received its own rank: its variables are neither the command's nor its parent's."""
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
        parents = (self.of.get(process.parent) for process in processes)
        return [parent for parent in parents if parent is not None and parent.program not in _ABOVE]

    def workers(self, process: Process) -> list[Process]:
        """The process itself, or the processes that a shell or launcher started, without helpers and own copies."""
        if process.program not in _ABOVE:
            return [process]
        below = [
            child
            for child in self._below.get(process.pid, ())
            if child.program not in _HELPERS
            and child.arguments
            and child.arguments != process.arguments
            and not any(word in text for text in child.arguments for word in _OF_MULTIPROCESSING)
        ]
        if not below and process.program not in _LAUNCHERS:
            return [process]
        return [worker for child in below for worker in self.workers(child)]


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
    """Parent and start of a process; empty if it has ended, also as a zombie."""
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


_TERM_TO_KILL_S = 10.0
_LINGER_S = 10.0
"""Processes that the command left behind may continue for this long after the command itself has ended."""
_POLL_S = 1.0
_CRASHES = frozenset({signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGKILL, signal.SIGSEGV})


class Shutdown:
    """Ends one command.

    With `checkpoint.signal: auto` the ranks get SIGUSR1 if all of them catch it, else SIGTERM if all catch that, else
    no signal: the command then continues until the grace time is over. The ranks are inspected every second, because
    a trainer may install its handler late.
    """

    def __init__(self, command: Command, *, signal_name: str, log: EventLog) -> None:
        self._command = command
        self._signal_name = signal_name
        self._log = log
        self._ranks: tuple[Process, ...] = ()
        self._sent: signal.Signals | None = None
        self._look_at: float | None = None
        self._unhandled = False
        self._term_at: float | None = None
        self._kill_at: float | None = None
        self._killed = False

    @property
    def enforced(self) -> bool:
        """Whether the command, or processes that it left behind, received more than the request to save."""
        return self._kill_at is not None

    def saved(self, returncode: int) -> bool:
        """Whether the command received the request to save and then ended without a crash or kill, with any code."""
        crashed = {-returncode, returncode - 128} & _CRASHES
        return self._sent is not None and not self._killed and not crashed

    def lives(self) -> bool:
        """Whether any process of the command still runs; ranks may have their own sessions, and outlive a launcher."""
        return self._command.group_lives() or any(process.lives() for process in self._ranks)

    def end_at(self, moment: float) -> None:
        """End the command at a moment (monotonic seconds), or earlier if an earlier moment is known."""
        self._term_at = moment if self._term_at is None else min(self._term_at, moment)

    def ask_to_save(self) -> None:
        """Request that the ranks save and exit."""
        if self._signal_name != "none":
            self._look_at = time.monotonic()

    def go_on(self, now: float) -> None:
        """Perform the actions that are due."""
        if self._look_at is not None and now >= self._look_at and self._sent is None and not self.enforced:
            self._look_at = now + _POLL_S
            self._ask()
        if self._term_at is None and self._command.returncode is not None:
            self._term_at = now + _LINGER_S
        if self._term_at is not None and now >= self._term_at and self._kill_at is None:
            # Ranks that got SIGTERM have had the whole grace time.
            self._kill_at = now if self._sent is signal.SIGTERM else now + _TERM_TO_KILL_S
            if self._sent is not signal.SIGTERM and self._command.group_lives():
                self._log.append("signalled", signal="SIGTERM")
                self._command.signal(signal.SIGTERM)
        if self._kill_at is not None and now >= self._kill_at and self.lives():
            if not self._killed:
                self._log.append("signalled", signal="SIGKILL")
            self._killed = True
            self.kill()

    def kill(self) -> None:
        """Kill every process of the command."""
        processes = self._processes()
        self._command.signal(signal.SIGKILL)
        send((*processes, *self._ranks), signal.SIGKILL)

    def _processes(self) -> tuple[Process, ...]:
        return find_processes(self._command.pid, self._command.marks)

    def _ask(self) -> None:
        if not self._command.group_lives():
            return
        processes = ranks(self._processes(), self._command.pid)
        number = self._signal_for(processes)
        if number is None:
            self._log_unhandled(processes)
            return
        self._sent, self._ranks = number, processes
        self._log.append("signalled", signal=number.name, processes=[process.pid for process in processes])
        send(processes, number)

    def _signal_for(self, processes: tuple[Process, ...]) -> signal.Signals | None:
        if not processes:
            return None
        if self._signal_name != "auto":
            return signal.Signals[self._signal_name]
        for number in (signal.SIGUSR1, signal.SIGTERM):
            if all(number in process.caught for process in processes):
                return number
        return None

    def _log_unhandled(self, processes: tuple[Process, ...]) -> None:
        if self._unhandled:
            return
        self._unhandled = True
        deaf = [process for process in processes if not {signal.SIGUSR1, signal.SIGTERM} & process.caught]
        names = ", ".join(f"{process.program} (process {process.pid})" for process in deaf[:4])
        if names:
            reason = f"neither SIGUSR1 nor SIGTERM has a handler in {names}"
        elif processes:
            reason = "some ranks handle only SIGUSR1 and others only SIGTERM"
        else:
            reason = "found no training process"
        reason += "; the agent sends no signal, and the command continues until the grace period ends"
        self._log.append("signal-not-handled", reason=reason)
