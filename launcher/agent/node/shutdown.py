"""The end of a command: a signal to the ranks to save, then SIGTERM, then SIGKILL."""

import signal
import time

from launcher.agent.events import EventLog
from launcher.agent.node.process import Command
from launcher.agent.node.process_table import Process, find_processes, send
from launcher.agent.node.ranks import SAVING_SIGNALS, ranks

_TERM_TO_KILL_S = 10.0
_LINGER_S = 10.0
"""Processes that the command left behind may continue for this long after the command itself has ended."""
_POLL_S = 1.0
_CRASHES = frozenset({signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGKILL, signal.SIGSEGV})


class Shutdown:
    """Ends one command.

    With `checkpoint.signal: auto` each rank gets SIGUSR1 if it catches it, else SIGTERM if it catches that, else no
    signal: it then continues until the grace time is over. The ranks are inspected every second, because a trainer may
    install its handler late; each is asked once.
    """

    def __init__(self, command: Command, *, signal_name: str, log: EventLog) -> None:
        self._command = command
        self._signals = tuple(number for number in SAVING_SIGNALS if signal_name in ("auto", number.name))
        self._log = log
        self._asked: dict[tuple[int, int], Process] = {}
        self._sent: set[signal.Signals] = set()
        self._next_poll: float | None = None
        self._unhandled = False
        self._waits = True
        self._term_at: float | None = None
        self._kill_at: float | None = None
        self._killed = False

    @property
    def is_forced(self) -> bool:
        """Whether the command, or processes that it left behind, received more than the request to save."""
        return self._kill_at is not None

    def has_saved(self, returncode: int) -> bool:
        """Whether the command received the request to save and then ended without a crash or kill, with any code."""
        crashed = {-returncode, returncode - 128} & _CRASHES
        return bool(self._sent) and not self._killed and not crashed

    def lives(self) -> bool:
        """Whether any process of the command still runs; ranks may have their own sessions, and outlive a launcher."""
        return self._command.group_lives() or any(process.lives() for process in self._asked.values())

    def end_at(self, moment: float) -> None:
        """End the command at a moment (monotonic seconds), or earlier if an earlier moment is known."""
        self._term_at = moment if self._term_at is None else min(self._term_at, moment)

    def ask_to_save(self, *, waits: bool = True) -> None:
        """Request that the ranks save and exit; without `waits`, a command that cannot be asked ends at once."""
        self._waits = waits
        if self._signals:
            self._next_poll = time.monotonic()

    def go_on(self, now: float) -> None:
        """Perform the actions that are due."""
        if self._next_poll is not None and now >= self._next_poll and not self.is_forced:
            self._next_poll = now + _POLL_S
            self._ask()
        if self._term_at is None and self._command.returncode is not None:
            self._term_at = now + _LINGER_S
        if self._term_at is not None and now >= self._term_at and self._kill_at is None:
            # Ranks that got SIGTERM have had the whole grace time.
            had_term = self._sent == {signal.SIGTERM}
            self._kill_at = now if had_term else now + _TERM_TO_KILL_S
            if not had_term and self._command.group_lives():
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
        send((*processes, *self._asked.values()), signal.SIGKILL)

    def _processes(self) -> tuple[Process, ...]:
        return find_processes(self._command.pid, self._command.marks)

    def _ask(self) -> None:
        if not self._command.group_lives():
            return
        processes = ranks(self._processes(), self._command.pid, self._signals)
        new = [process for process in processes if (process.pid, process.started) not in self._asked]
        for number in self._signals:
            catching = [process for process in new if self._signal_for(process) is number]
            if catching:
                self._sent.add(number)
                self._asked |= {(process.pid, process.started): process for process in catching}
                self._log.append("signalled", signal=number.name, processes=[process.pid for process in catching])
                send(catching, number)
        if not self._asked:
            self._log_unhandled(processes)

    def _signal_for(self, process: Process) -> signal.Signals | None:
        return next((number for number in self._signals if number in process.caught), None)

    def _log_unhandled(self, processes: tuple[Process, ...]) -> None:
        if self._unhandled:
            return
        self._unhandled = True
        names = ", ".join(f"{process.program} (process {process.pid})" for process in processes[:4])
        handled = " nor ".join(number.name for number in self._signals)
        if names:
            reason = f"{'neither ' if len(self._signals) > 1 else 'no '}{handled} has a handler in {names}"
        else:
            reason = "found no training process"
        if self._waits:
            reason += "; the agent sends no signal, and the command continues until the grace period ends"
        else:
            reason += "; the command cannot be asked to save, and is ended"
            self.end_at(time.monotonic())
        self._log.append("signal-not-handled", reason=reason)
