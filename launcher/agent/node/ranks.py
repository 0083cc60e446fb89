"""Which processes of a command train: those that can save when they are sent a signal."""

import signal
from collections.abc import Iterable, Iterator, Sequence

from launcher.agent.node.process_table import Process

# A command is seldom the trainer itself: shells and launchers (torchrun, mpirun, wandb agent, docker) run above it,
# data workers below, monitors and servers beside it. A launcher that gets SIGTERM ends its ranks, and most programs
# die of a SIGUSR1 that they do not catch. So only processes that catch the signal are asked, and of them those that
# train. What a process is, in the order of evidence:
#
# - It has its own rank: its rank variables differ from those of its parent. If local rank 0 is not among the ranks that
#   a trainer started, the trainer itself is that rank (Lightning starts ranks 1 and up).
# - It has a chip's device file open; of several in one line of descent the first.
# - Neither is known: it catches the signal, and nothing above it does. If the only other program below it that catches
#   one of the signals has used more processor time, it is a wrapper that waits: what it does to its program at a signal
#   is not known (submitit and `wandb agent --forward-signals` pass it on, others kill after some seconds).
#
# A process that does not catch the signal while one below it does is a launcher, whatever its name. A process without a
# handler beside others has no say. If no rank catches a signal, the process that started them may, or else a shell
# script that handles SIGUSR1: they stop the ranks by their own means. Names only tell what handlers cannot: launchers
# and interpreters that catch a signal themselves, and helpers.
#
# The processes of a container are not below the command (`docker run` is a client). They are found by the variables
# of the job in their environment: the agent on the node sees every process of its user in /proc.

SAVING_SIGNALS = (signal.SIGUSR1, signal.SIGTERM)
"""Signals that ask a rank to save, the first that it catches; `checkpoint.signal` may name one of them."""
_SHELLS = frozenset({"ash", "bash", "busybox", "dash", "fish", "ksh", "mksh", "sh", "tcsh", "zsh"})
_EITHER = frozenset({"axolotl", "axolotl.cli.main", "llamafactory-cli", "trl"})
"""Programs that start launchers, or train themselves."""
_OF_OTHERS = frozenset({"raylet"})
"""If one of these runs, the ranks belong to it; the signals that the command's processes catch prove nothing."""
_OF_MULTIPROCESSING = ("multiprocessing.", "--multiprocessing-fork")
_WAITS = 2
"""A wrapper has used less than half of its program's processor time."""
_EVERYTHING = 25
"""The runtime of Go catches all signals but SIGKILL and SIGSTOP: of the first 31, no program has a use for so many."""


def _tokens(text: str) -> frozenset[str]:
    return frozenset(text.split())


_LAUNCHERS = _tokens(
    """accelerate accelerate.commands.accelerate_cli accelerate.commands.launch composer composer.cli.launcher conda
    containerd-shim deepspeed deepspeed.launcher.launch deepspeed.launcher.runner docker docker-init dumb-init enroot
    gosu hydra_pmi_proxy hyperpodrun make micromamba mpiexec mpiexec.hydra mpirun ncu neuron_parallel_compile nsys orted
    orterun pipenv pixi podman poetry prted prterun script srun su sudo time timeout tini torch.distributed.launch
    torch.distributed.run torchrun unshare uv uvx xargs"""
)
_RUNTIMES = _tokens("R beam.smp bun deno dotnet java node nodejs npm npx pnpm ruby yarn")
"""Interpreters that catch signals whatever their program does: Node.js SIGUSR1 for its debugger, Ruby and R to
end, Java SIGTERM. One of them is asked if it is all that a shell or launcher started."""
_ABOVE = _SHELLS | _LAUNCHERS | _EITHER | _RUNTIMES
_HELPERS = _tokens(
    """awk aws cat curl dcgmi df dmesg du free gawk grep head htop inotifywait iostat logger mawk mpstat neuron-ls
    neuron-monitor neuron-top nvidia-smi nvtop pidstat rsync s5cmd sar sed sleep ssh tail tee tensorboard top ts vmstat
    wandb-core watch"""
)


def ranks(
    processes: Iterable[Process], root: int, signals: Sequence[signal.Signals] = SAVING_SIGNALS
) -> tuple[Process, ...]:
    """The processes to ask, in the order of their ids: ranks that catch a signal, else those that should.

    Empty while no rank exists, and if the ranks belong to another program.
    """
    tree = _Tree(processes, root)
    if any(process.program in _OF_OTHERS for process in tree.of.values()):
        return ()
    groups = tree.with_own_rank() or tree.with_chips() or [tree.tops()]
    found = [process for group in groups for process in tree.answering(group, signals)]
    found = found or [process for group in groups for process in tree.answering_above(group, signals)]
    found = found or tree.trapping(signals)
    found = found or [process for group in groups for top in group for process in tree.workers(top)]
    return tuple(sorted({process.pid: process for process in found}.values(), key=lambda process: process.pid))


class _Tree:
    def __init__(self, processes: Iterable[Process], root: int) -> None:
        self.of = {process.pid: process for process in processes}
        self._root = root
        self._below: dict[int, list[Process]] = {}
        for process in self.of.values():
            self._below.setdefault(process.parent, []).append(process)

    def tops(self) -> list[Process]:
        """The command's first process, and those of containers: the command is only a client of what started them."""
        return [process for process in self.of.values() if process.pid == self._root or process.parent not in self.of]

    def with_own_rank(self) -> list[list[Process]]:
        """The innermost processes with their own rank, each a group, and the trainer that started them if it is one."""
        holders = [process for process in self.of.values() if self._has_own_rank(process)]
        inner = [holder for holder in holders if not any(holder in self._above(other) for other in holders)]
        # What a trainer starts inherits the variables that it has set for itself.
        inner = [
            holder
            for holder in inner
            if self._computes(holder) or not any(above.has_chip for above in self._above(holder))
        ]
        starters = [] if {process.rank[0] for process in inner} & {None, "0"} else self._starters(inner)
        return [[process] for process in (*inner, *starters)]

    def with_chips(self) -> list[list[Process]]:
        """The first processes in each line of descent that compute on a chip, each a group."""
        computing = [process for process in self.of.values() if process.has_chip]
        return [[process] for process in computing if not any(above.has_chip for above in self._above(process))]

    def answering(self, group: Sequence[Process], signals: Sequence[signal.Signals]) -> list[Process]:
        """The processes of a group, or below it, that catch the first of the signals that any of them catches."""
        for number in signals:
            found = [process for top in group for process in self._answering(top, number, only_with_chip=top.has_chip)]
            if found:
                return [waited for process in found for waited in self._waited_for(process, signals)]
        return []

    def answering_above(self, group: Sequence[Process], signals: Sequence[signal.Signals]) -> list[Process]:
        """The nearest processes above a group that catch one of the signals."""
        nearest = []
        for process in group:
            for above in self._above(process):
                if any(_answers(above, number) for number in signals):
                    nearest.append(above)
                    break
        return nearest

    def trapping(self, signals: Sequence[signal.Signals]) -> list[Process]:
        """The outermost shell scripts that handle SIGUSR1, as scripts do that stop their trainer by its own means."""
        shells = [process for process in self.of.values() if _traps(process)] if signal.SIGUSR1 in signals else []
        return [shell for shell in shells if not any(above in shells for above in self._above(shell))]

    def workers(self, process: Process) -> list[Process]:
        """The process itself, or the processes that a shell or launcher started, without helpers and own copies."""
        if process.program not in _ABOVE:
            return [process]
        below = [
            child
            for child in self._below.get(process.pid, ())
            if not _is_helper(child) and child.arguments and not _is_copy(child, process)
        ]
        if not below and process.program not in _LAUNCHERS:
            return [process]
        return [worker for child in below for worker in self.workers(child)]

    def _answering(self, process: Process, number: signal.Signals, *, only_with_chip: bool) -> list[Process]:
        """The first processes from here on downwards that catch a signal, in each line of descent."""
        answers = (process.has_chip or not only_with_chip) and _answers(process, number)
        is_either = process.program in _EITHER
        if answers and self._is_known(process) and not is_either:
            return [process]
        found = self._answering_below(process, number, only_with_chip=only_with_chip)
        waits = is_either or _waits(process, found)
        return [process] if answers and not (found and waits) else found

    def _answering_below(
        self, process: Process, number: signal.Signals, *, only_with_chip: bool = False
    ) -> list[Process]:
        """The first processes below one that catch a signal, without the parts of its own program."""
        found = []
        for child in self._below.get(process.pid, ()):
            # A forked data worker of PyTorch catches SIGTERM; a forked rank, SIGUSR1 as well.
            is_other_program = not _is_copy(child, process) or child.has_chip or number is signal.SIGUSR1
            if is_other_program and child.arguments:
                found += self._answering(child, number, only_with_chip=only_with_chip)
        return found

    def _waited_for(self, process: Process, signals: Sequence[signal.Signals]) -> list[Process]:
        """The program that a wrapper waits for, whichever of the signals it catches; else the process itself."""
        if not self._is_known(process):
            for number in signals:
                below = self._answering_below(process, number)
                if _waits(process, below):
                    return below
        return [process]

    def _is_known(self, process: Process) -> bool:
        """Whether the process is a rank by more than its handlers."""
        return process.has_chip or self._has_own_rank(process)

    def _has_own_rank(self, process: Process) -> bool:
        """Whether the process received its own rank: its variables are neither the command's nor its parent's."""
        parent, root = self.of.get(process.parent), self.of.get(self._root)
        return (
            any(value is not None for value in process.rank)
            and process.rank != (None if root is None else root.rank)
            and (parent is None or process.rank != parent.rank)
            and not _is_helper(process)
            and (process.has_chip or not _is_of_multiprocessing(process))
        )

    def _above(self, process: Process) -> Iterator[Process]:
        above = self.of.get(process.parent)
        while above is not None:
            yield above
            above = self.of.get(above.parent)

    def _computes(self, process: Process) -> bool:
        return process.has_chip or any(self._computes(child) for child in self._below.get(process.pid, ()))

    def _starters(self, processes: Iterable[Process]) -> list[Process]:
        parents = (self.of.get(process.parent) for process in processes)
        return [parent for parent in parents if parent is not None and parent.program not in _ABOVE]


def _answers(process: Process, number: signal.Signals) -> bool:
    """Whether a process catches a signal for work of its own, and not only because its runtime catches all."""
    other = process.program in _SHELLS | _LAUNCHERS | _RUNTIMES or _is_helper(process) or _catches_everything(process)
    return number in process.caught and not other


def _waits(process: Process, below: Sequence[Process]) -> bool:
    """Whether a process does hardly anything but to wait for the only other program below it."""
    return len(below) == 1 and below[0].worked > _WAITS * process.worked


def _traps(process: Process) -> bool:
    """Whether a shell script handles SIGUSR1.

    With SIGTERM, scripts only clean up, which ends the ranks. For `trap ... EXIT`, bash catches all signals that would
    end it, SIGXCPU among them.
    """
    catches = signal.SIGUSR1 in process.caught and signal.SIGXCPU not in process.caught
    return catches and process.program in _SHELLS


def _catches_everything(process: Process) -> bool:
    return sum(number < signal.SIGSYS for number in process.caught) >= _EVERYTHING


def _is_helper(process: Process) -> bool:
    return process.program in _HELPERS


def _is_copy(process: Process, parent: Process) -> bool:
    """Whether a process is a part of its parent's program: forked, or spawned by Python's multiprocessing."""
    return process.arguments == parent.arguments or _is_of_multiprocessing(process)


def _is_of_multiprocessing(process: Process) -> bool:
    return any(word in text for text in process.arguments for word in _OF_MULTIPROCESSING)
