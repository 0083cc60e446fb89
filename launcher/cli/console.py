"""Progress lines and questions of commands that price, deploy or launch."""

import time
from collections.abc import Callable
from dataclasses import replace
from types import TracebackType
from typing import Self

from launcher.answers.lines import fold
from launcher.answers.quote import page as quote_page
from launcher.answers.quote_brief import page as brief_page
from launcher.answers.words import saved_text
from launcher.cli import output
from launcher.cli.confirm import confirm, refuse_without_terminal
from launcher.cli.live import SCREEN, LiveNotifier, LiveStage
from launcher.model.meter import Meter
from launcher.model.stages import Notify
from launcher.model.units import clock
from launcher.pricing.priced import Priced
from launcher.workflow.quote.fresh import Picked
from launcher.workflow.run.follow import Progress

EVERY_S = 10.0
"""Seconds between two lines in a pipe, where nothing is redrawn."""
CLOCK = len("  [ 0:00] ")
"""Width of the time before each line, columns."""


class JobLine:
    """The job's state: redrawn in a terminal; elsewhere printed every `EVERY_S` seconds if it changed."""

    def __init__(self, notify: Notify, clock: Callable[[], float] = time.monotonic) -> None:
        """Start without a state.

        Args:
            notify: prints a line.
            clock: seconds.
        """
        self._notify, self._clock = notify, clock
        self._stage: LiveStage | None = None
        self._attempt = 0
        self._step: int | None = None
        self._stale: int | None = None
        self._saved: int | None = None
        self._old_saved: int | None = None
        self._shown_saved: int | None = None
        self._line = self._shown = ""
        self._shown_at = -EVERY_S

    def show(self, now: Progress) -> None:
        """Show the job's new state."""
        if now.attempt != self._attempt:
            # Until the new attempt reports a step, the last step is the previous attempt's.
            self._attempt, self._stale, self._old_saved = now.attempt, self._step, self._saved
        self._stale = self._stale if now.step == self._stale else None
        self._step, self._saved = now.step, now.saved_step
        stepped = self._stale is None
        # The previous attempt's line has its last save already.
        new = now if stepped or now.saved_step != self._old_saved else replace(now, saved_step=None)
        self._line = progress_line(new, stepped=stepped)
        if SCREEN.drawing:
            self._stage = self._stage or LiveStage(self._notify, "", details=False, timed=False)
            self._stage.now(self._line)
        elif self._clock() - self._shown_at >= EVERY_S:
            self.flush()

    def flush(self) -> None:
        """Print the last state if it was not printed yet; called before another line."""
        if self._line not in ("", self._shown):
            line, self._shown, self._shown_at = self._line, self._line, self._clock()
            self._shown_saved = self._saved
            self._notify(line)

    def forget(self) -> None:
        """Drop the last state, because the next line contains it; a newly saved step is kept."""
        if self._saved == self._shown_saved:
            self._shown = self._line

    def close(self) -> None:
        """Print the last state and stop drawing."""
        self.flush()
        if self._stage is not None:
            self._stage.end()
            self._stage = None


def progress_line(now: Progress, *, stepped: bool) -> str:
    """The job's state as a line; empty if only the attempt is known. `stepped`: the step is this attempt's."""
    parts = [f"attempt {now.attempt}"]
    if now.step is not None and stepped:
        parts.append(f"step {now.step:,}" + (f" of {now.steps:,}" if now.steps else ""))
        if now.loss is not None:
            parts.append(f"loss {now.loss:.3f}")
    if now.saved_step is not None:
        parts.append(saved_text(now.saved_step, counted=now.saved_is_count))
    return "  ".join(parts) if len(parts) > 1 else ""


class StepPrinter:
    """Prints each step with the time since the first, and shows work in progress below."""

    def __init__(self) -> None:
        self.begun: float | None = None
        self.warned: set[str] = set()
        self.notify = LiveNotifier(self._step, details=output.verbose())
        self._job = JobLine(self._print)

    def __enter__(self) -> Self:
        """Show work in progress until the block ends."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Print the job's last state."""
        self._job.close()

    def _step(self, text: str) -> None:
        self._job.flush()
        self._print(text)

    def _print(self, text: str) -> None:
        now = time.monotonic()
        self.begun = self.begun if self.begun is not None else now
        room = output.terminal_width() - CLOCK
        whole = not SCREEN.drawing or len(text) <= room or text.startswith("next: ")
        first, *rest = [text] if whole else fold(text, room)
        output.say(f"  [{clock(now - self.begun):>5}] {first}")
        for piece in rest:
            output.say(" " * CLOCK + piece)

    def progress(self, now: Progress) -> None:
        """Show the job's state."""
        self._job.show(now)

    def meter(self, now: Meter) -> None:
        """Print the meter, and each kind of warning once."""
        from launcher.answers.meter import line

        self._job.forget()
        self.notify(line(now, bar=SCREEN.drawing))
        for kind, text in now.warnings.items():
            if kind not in self.warned:
                self.warned.add(kind)
                self.notify(f"warning: {text}")


class Console(StepPrinter):
    """A step printer that also shows quotes and asks for confirmation."""

    def __init__(self, *, yes: bool) -> None:
        super().__init__()
        self.yes = yes
        self.say = output.talking()

    def show(self, priced: Priced, *, called: bool) -> None:
        """Print the candidates if verbose."""
        if not output.verbose():
            return
        from launcher.answers.plan import page

        for line in page(priced, output.terminal_width(), everything=False, called=called):
            output.say(line)

    def quote(self, picked: Picked) -> None:
        """Print the quote: the figures to decide by, or all of it if verbose."""
        priced, rank, quoted = picked
        width = output.terminal_width()
        whole = quote_page(quoted, rank, width, priced, explained=True) if output.verbose() else None
        for line in whole or brief_page(quoted, rank, width, priced):
            output.say(line)

    def refuse_unless_answerable(self, action: str) -> None:
        """Refuse if standard input is no terminal."""
        refuse_without_terminal(action, yes=self.yes)

    def approve(self, action: str) -> None:
        """A question."""
        confirm(action, yes=self.yes)
