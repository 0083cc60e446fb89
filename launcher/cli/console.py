"""What a person sees and is asked while something is priced, deployed or launched."""

import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from launcher.answers.lines import wrapped
from launcher.answers.quote import page as quote_page
from launcher.answers.quote_brief import page as brief_page
from launcher.cli import output
from launcher.cli.confirm import confirm, refuse_without_terminal
from launcher.cli.live import SCREEN, LiveStage, Teller
from launcher.model.meter import Meter
from launcher.model.units import clock
from launcher.pricing.priced import Priced
from launcher.workflow.quote.fresh import Picked
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


CLOCK = len("  [ 0:00] ")
"""Columns before the words of a step."""


class Narrator:
    """Prints each step with the time since the first, and shows below them what is in progress."""

    def __init__(self) -> None:
        self.begun: float | None = None
        self.warned: set[str] = set()
        self.tell = Teller(self._step, details=output.verbose())
        self._job = JobLine(self._print)

    def __enter__(self) -> Self:
        """What is in progress is shown as long as the block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """What was last seen of a job stays."""
        self._job.close()

    def _step(self, text: str) -> None:
        self._job.flush()
        self._print(text)

    def _print(self, text: str) -> None:
        now = time.monotonic()
        self.begun = self.begun if self.begun is not None else now
        room = output.terminal_width() - CLOCK
        whole = not SCREEN.drawing or len(text) <= room or text.startswith("next: ")
        first, *rest = [text] if whole else wrapped(text, room)
        output.say(f"  [{clock(now - self.begun):>5}] {first}")
        for piece in rest:
            output.say(" " * CLOCK + piece)

    def progress(self, now: Progress) -> None:
        """Show the job's state."""
        self._job.show(now)

    def meter(self, now: Meter) -> None:
        """Print the meter; what it warns of, each kind once."""
        from launcher.answers.meter import line

        self._job.forget()
        self.tell(line(now, bar=SCREEN.drawing))
        for kind, text in now.warnings.items():
            if kind not in self.warned:
                self.warned.add(kind)
                self.tell(f"warning: {text}")


class Console(Narrator):
    """The same for a person who is shown prices and asked."""

    def __init__(self, *, yes: bool) -> None:
        super().__init__()
        self.yes = yes
        self.say = output.talking()

    def show(self, priced: Priced, *, called: bool) -> None:
        """The candidates, where more is to be said: who launches has chosen."""
        if not output.verbose():
            return
        from launcher.answers.plan import page

        for line in page(priced, output.terminal_width(), everything=False, called=called):
            output.say(line)

    def quote(self, picked: Picked) -> None:
        """The quote: what decides, or all of it where more is to be said."""
        priced, rank, quoted = picked
        width = output.terminal_width()
        whole = quote_page(quoted, rank, width, priced, explained=True) if output.verbose() else None
        for line in whole or brief_page(quoted, rank, width, priced):
            output.say(line)

    def refuse_unless_answerable(self, what: str) -> None:
        """Nobody can be asked without a terminal."""
        refuse_without_terminal(what, yes=self.yes)

    def approve(self, what: str) -> None:
        """A question."""
        confirm(what, yes=self.yes)
