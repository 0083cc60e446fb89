"""The line of a running job: its attempt, its step, its loss, what is saved."""

import time
from collections.abc import Callable

from launcher.cli.live import SCREEN, LiveStage
from launcher.workflow.run.follow import Progress

EVERY_S = 10.0
"""Between two lines where nothing is drawn: a job of a day is no log of 40,000 lines."""


class JobLine:
    """Drawn anew in a terminal; elsewhere printed now and then, when it has changed."""

    def __init__(self, tell: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        """Nothing was seen of a job yet.

        Args:
            tell: prints a step.
            clock: seconds.
        """
        self._tell, self._clock = tell, clock
        self._stage: LiveStage | None = None
        self._attempt = 0
        self._step: int | None = None
        self._stale: int | None = None
        self._saved: int | None = None
        self._told_saved: int | None = None
        self._line = self._told = ""
        self._told_at = -EVERY_S

    def show(self, now: Progress) -> None:
        """Take in the job's state."""
        if now.attempt != self._attempt:
            # Until the attempt has told a step of its own, the last one is that of the attempt before.
            self._attempt, self._stale = now.attempt, self._step
        self._stale = self._stale if now.step == self._stale else None
        self._step, self._saved = now.step, now.saved_step
        self._line = words(now, stepped=self._stale is None)
        if SCREEN.drawing:
            self._stage = self._stage or LiveStage(self._tell, "", details=False, timed=False)
            self._stage.now(self._line)
        elif self._clock() - self._told_at >= EVERY_S:
            self.flush()

    def flush(self) -> None:
        """Print what was last seen, where that was not said yet: something else is about to be told."""
        if self._line not in ("", self._told):
            line, self._told, self._told_at = self._line, self._line, self._clock()
            self._told_saved = self._saved
            self._tell(line)

    def forget(self) -> None:
        """What was last seen needs no line of its own: the next line says it. Not what was saved since."""
        if self._saved == self._told_saved:
            self._told = self._line

    def close(self) -> None:
        """The job is no longer followed."""
        self.flush()
        if self._stage is not None:
            self._stage.end()
            self._stage = None


def words(now: Progress, *, stepped: bool) -> str:
    """One moment of a job as a line; empty where nothing is known but its attempt. `stepped`: its step is its own."""
    parts = [f"attempt {now.attempt}"]
    if now.step is not None and stepped:
        parts.append(f"step {now.step:,}" + (f" of {now.steps:,}" if now.steps else ""))
        if now.loss is not None:
            parts.append(f"loss {now.loss:.3f}")
    if now.saved_step is not None:
        parts.append(f"saved at step {now.saved_step:,}")
    return "  ".join(parts) if len(parts) > 1 else ""
