"""The end of a command: a signal to the ranks to save, then SIGTERM, then SIGKILL."""

import signal
import time

from launcher.agent.events import EventLog
from launcher.agent.node.process import Command
from launcher.agent.node.ranks import Process, find_processes, ranks, send

_TERM_TO_KILL_S = 10.0
_LINGER_S = 10.0
"""What the command started and left behind may go on for this long once the command itself has ended."""
_LOOK_S = 1.0
_CRASHES = frozenset({signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGKILL, signal.SIGSEGV})


class Shutdown:
    """Ends one command.

    With `checkpoint.signal: auto` the ranks get SIGUSR1 if all of them catch it, else SIGTERM if all catch that, else
    nothing: the command then goes on until the grace time is over. The ranks are looked at again every second, because
    a trainer may install its handler late.
    """

    def __init__(self, command: Command, *, signal_name: str, log: EventLog) -> None:
        """Nothing ends yet.

        Args:
            command: What is to be ended.
            signal_name: `checkpoint.signal` of the job: auto, SIGUSR1, SIGTERM or none.
            log: Where each signal is written.
        """
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
        """Whether the command, or what it left behind, was sent more than the request to save."""
        return self._kill_at is not None

    def saved(self, returncode: int) -> bool:
        """Whether the command was asked to save and has left by itself after that, with whatever exit code."""
        crashed = {-returncode, returncode - 128} & _CRASHES
        return self._sent is not None and not self._killed and not crashed

    def lives(self) -> bool:
        """Whether any process of the command is left; ranks may have sessions of their own, and outlive a launcher."""
        return self._command.group_lives() or any(process.lives() for process in self._ranks)

    def end_at(self, moment: float) -> None:
        """End the command at a moment (monotonic seconds), or earlier if an earlier moment is known."""
        self._term_at = moment if self._term_at is None else min(self._term_at, moment)

    def ask_to_save(self) -> None:
        """Have the ranks save and leave."""
        if self._signal_name != "none":
            self._look_at = time.monotonic()

    def go_on(self, now: float) -> None:
        """Do what is due."""
        if self._look_at is not None and now >= self._look_at and self._sent is None and not self.enforced:
            self._look_at = now + _LOOK_S
            self._ask()
        if self._term_at is None and self._command.returncode is not None:
            self._term_at = now + _LINGER_S
        if self._term_at is not None and now >= self._term_at and self._kill_at is None:
            # Ranks that were asked by SIGTERM have had the whole grace time.
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
        found = ranks(self._processes(), self._command.pid)
        number = self._signal_for(found)
        if number is None:
            self._say_unhandled(found)
            return
        self._sent, self._ranks = number, found
        self._log.append("signalled", signal=number.name, processes=[process.pid for process in found])
        send(found, number)

    def _signal_for(self, found: tuple[Process, ...]) -> signal.Signals | None:
        if not found:
            return None
        if self._signal_name != "auto":
            return signal.Signals[self._signal_name]
        for number in (signal.SIGUSR1, signal.SIGTERM):
            if all(number in process.caught for process in found):
                return number
        return None

    def _say_unhandled(self, found: tuple[Process, ...]) -> None:
        if self._unhandled:
            return
        self._unhandled = True
        deaf = [process for process in found if not {signal.SIGUSR1, signal.SIGTERM} & process.caught]
        names = ", ".join(f"{process.program} (process {process.pid})" for process in deaf[:4])
        if names:
            reason = f"neither SIGUSR1 nor SIGTERM has a handler in {names}"
        elif found:
            reason = "some ranks handle only SIGUSR1 and others only SIGTERM"
        else:
            reason = "no process that trains was found"
        reason += "; no signal is sent, and the command goes on until the grace time ends"
        self._log.append("signal-not-handled", reason=reason)
