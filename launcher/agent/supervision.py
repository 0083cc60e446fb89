"""Standing by the command while it runs: finished checkpoints go to the uploader, a notice ends it in good order.

On a notice: the node is drained (a spot notice only: after a time limit the node is fine), SIGUSR1 goes to the
command's process group, after the grace time SIGTERM, ten seconds later SIGKILL.
"""

import signal
import time
from dataclasses import dataclass

from launcher.agent.events import EventLog
from launcher.agent.job import JobSpec
from launcher.agent.notice import CANCEL, Notice
from launcher.agent.notices import Notices, heed
from launcher.agent.process import Command
from launcher.agent.uploader import Uploader
from launcher.agent.watch import CheckpointWatch, FinishedFolder

_LOOK_S = 0.25
_TERM_TO_KILL_S = 10.0
_LINGER_S = 10.0
"""What the command started and left behind may go on for this long once the command itself has ended."""
_SPOT_RESERVE_S = 15.0
"""Of the time of a spot notice, what is kept for SIGTERM and the last upload."""
_CANCEL_GRACE_S = 15.0
"""Slurm kills what is left 30 s after it cancelled a job (KillWait, slurm.conf)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How the command ended.

    Attributes:
        returncode: Of the command; negative for a signal.
        notice: The first notice that came before its end, if one did.
        node_goes_at: Monotonic seconds at which the node goes, where the notice said so.
        newest_step: The newest finished checkpoint of this attempt, if there is one.
    """

    returncode: int
    notice: Notice | None
    node_goes_at: float | None
    newest_step: int | None


class Supervision:
    """Follows one command to its end."""

    def __init__(
        self,
        command: Command,
        *,
        spec: JobSpec,
        notices: Notices,
        watch: CheckpointWatch,
        uploader: Uploader | None,
        log: EventLog,
    ) -> None:
        """Keep what it needs."""
        self._command = command
        self._spec = spec
        self._notices = notices
        self._watch = watch
        self._uploader = uploader
        self._log = log
        self._notice: Notice | None = None
        self._node_goes_at: float | None = None
        self._newest_step: int | None = None
        self._term_at: float | None = None
        self._kill_at: float | None = None

    def run(self) -> Outcome:
        """Follow the command until it and everything it started have ended."""
        while self._command.group_lives():
            notice = self._notices.next(wait_s=_LOOK_S)
            if notice is not None:
                self._heed(notice)
            self._offer(self._watch.poll(time.monotonic()))
            self._enforce_the_end()
        while (notice := self._notices.next(wait_s=0)) is not None:
            self._heed(notice)  # it came while the command ended
        returncode = self._command.returncode or 0
        self._offer(self._watch.settle(time.monotonic(), clean=returncode == 0 and self._kill_at is None))
        for name in self._watch.unfinished():
            self._log.append("checkpoint-dropped", folder=name, reason="it was not finished when the command ended")
        return Outcome(
            returncode=returncode,
            notice=self._notice,
            node_goes_at=self._node_goes_at,
            newest_step=self._newest_step,
        )

    def _offer(self, finished: list[FinishedFolder]) -> None:
        for folder in finished:
            self._newest_step = max(folder.step, self._newest_step or 0)
            if self._uploader is not None:
                self._uploader.offer(folder)

    def _heed(self, notice: Notice) -> None:
        """The first notice begins the end; a later one can only bring it closer."""
        now = time.monotonic()
        first = self._notice is None
        if notice.left_s is not None:
            self._node_goes_at = now + notice.left_s
        heed(notice, drain=self._spec.drain, log=self._log)
        term_at = now + self._grace_s(notice)
        self._term_at = term_at if first or self._term_at is None else min(self._term_at, term_at)
        if not first:
            return
        self._notice = notice
        self._signal(signal.SIGUSR1)
        if self._uploader is not None:
            self._uploader.hurry()

    def _grace_s(self, notice: Notice) -> float:
        grace_s = self._spec.checkpoint.grace_seconds
        if notice.source == CANCEL:
            return min(grace_s, _CANCEL_GRACE_S)
        if notice.left_s is not None:
            return min(grace_s, max(0.0, notice.left_s - _SPOT_RESERVE_S))
        return grace_s

    def _enforce_the_end(self) -> None:
        now = time.monotonic()
        if self._term_at is None and self._command.returncode is not None:
            self._term_at = now + _LINGER_S
        if self._term_at is not None and now >= self._term_at and self._kill_at is None:
            self._kill_at = now + _TERM_TO_KILL_S
            self._signal(signal.SIGTERM)
        if self._kill_at is not None and now >= self._kill_at:
            self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        if self._command.group_lives():
            self._log.append("signalled", signal=number.name)
            self._command.signal(number)
