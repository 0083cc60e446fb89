"""Progress of running stages, drawn as the last lines on standard error: redrawn every second, removed at the end.

If standard error is no terminal, nothing is drawn; a long stage that printed nothing prints that it still runs: ten
seconds after its begin, then less and less often.
"""

import itertools
import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from launcher.answers.lines import bar
from launcher.cli.colour import dim
from launcher.model.stages import Notify, Stage, StagePart, Text
from launcher.model.units import clock
from launcher.model.visible_text import visible

SECOND = 1.0
HEARTBEATS_S = (10.0, 20.0, 30.0, 60.0, 120.0, 300.0)
"""Seconds between the heartbeat lines of one stage in a pipe, the last for all later ones. Each stage starts anew, so
that the first line comes after ten seconds also in a later stage; some CI hosts end a job that is silent for ten
minutes."""
PLACE = len("  [ 0:00]")
"""Width of a step's time, columns; the times of work in progress are aligned with it."""
_LEFT_FREE = 4
"""Terminal rows that the drawn lines leave free for other output."""


class Screen:
    """The lines at the bottom of the terminal; other output is printed above them (`aside`)."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._stages: list[LiveStage] = []
        self._drawn = 0
        self._over = threading.Event()
        self._printed_at = 0.0

    @property
    def drawing(self) -> bool:
        """Whether progress is drawn: standard error is a terminal whose cursor moves."""
        return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"

    @contextmanager
    def aside(self) -> Iterator[None]:
        """A block that prints or asks; the drawn lines are removed until it ends."""
        with self._lock:
            self._erase()
            try:
                yield
            finally:
                self._printed_at = time.monotonic()
                self._draw()

    def add(self, stage: "LiveStage") -> None:
        """A stage begins."""
        with self._lock:
            self._stages.append(stage)
            if len(self._stages) == 1:
                self._over = threading.Event()
                threading.Thread(target=self._beat, args=(self._over,), daemon=True, name="progress").start()
            self.redraw()

    def remove(self, stage: "LiveStage") -> None:
        """A stage is over."""
        with self._lock:
            if stage not in self._stages:
                return
            self._stages.remove(stage)
            if not self._stages:
                self._over.set()
            self.redraw()

    def redraw(self) -> None:
        """Redraw the lines."""
        with self._lock:
            self._erase()
            self._draw()

    def _beat(self, over: threading.Event) -> None:
        """Draw again every second, or let the newest stage print its heartbeat, until the last stage is over."""
        while not over.wait(min(SECOND, HEARTBEATS_S[0])):
            with self._lock:
                if over.is_set():
                    return
                if self.drawing:
                    self.redraw()
                elif time.monotonic() - self._printed_at >= HEARTBEATS_S[0]:
                    self._stages[-1].heartbeat()

    def _erase(self) -> None:
        if self._drawn:
            sys.stderr.write(f"\r\033[{self._drawn}A\033[J")
            sys.stderr.flush()
            self._drawn = 0

    def _draw(self) -> None:
        if not self._stages or not self.drawing:
            return
        size = shutil.get_terminal_size()
        lines = [line for stage in self._stages for line in stage.lines()][: max(1, size.lines - _LEFT_FREE)]
        # A line as wide as the terminal may take two of its rows, and then more is erased than was drawn.
        sys.stderr.write("".join(f"{dim(visible(line)[: size.columns - 1], sys.stderr)}\n" for line in lines))
        sys.stderr.flush()
        self._drawn = len(lines)


SCREEN = Screen()
"""The process's one screen, because a process has one standard error."""


class LiveStage(Stage):
    """A stage that shows its work in progress."""

    def __init__(self, notify: Notify, title: str, *, details: bool, timed: bool = True) -> None:
        """Begin it.

        Args:
            notify: prints a line.
            title: what begins, reported by the caller.
            details: whether finished parts are reported too.
            timed: whether the stage's time is shown.
        """
        super().__init__(notify)
        self.words = title
        self.begun = time.monotonic()
        self.details = details
        self.timed = timed
        self.summary: Text = ""
        self.share: float | None = None
        self.parts: tuple[StagePart, ...] = ()
        self._waits = itertools.chain(HEARTBEATS_S, itertools.repeat(HEARTBEATS_S[-1]))
        self._heartbeat_at = self.begun + next(self._waits)
        SCREEN.add(self)

    def now(self, progress: Text = "", *, share: float | None = None, parts: tuple[StagePart, ...] = ()) -> None:
        """Show how far it is."""
        self.summary, self.share, self.parts = progress, share, parts
        SCREEN.redraw()

    def detail(self, text: str) -> None:
        """Report a part that has finished, if `details` is set."""
        if self.details:
            self._notify(text)

    def end(self) -> None:
        """Stop showing the stage."""
        SCREEN.remove(self)

    def lines(self) -> list[str]:
        """The drawn lines: the stage's time and summary, then each part with its time."""
        now = time.monotonic()
        first = " ".join(text for text in (bar(self.share) if self.share is not None else "", self._sum()) if text)
        first_line = [_line(clock(now - self.begun) if self.timed else "", first)] if self.timed or first else []
        return first_line + [_line(clock(now - part.begun), part.description) for part in self.parts]

    def _sum(self) -> str:
        return self.summary if isinstance(self.summary, str) else self.summary()

    def heartbeat(self) -> None:
        """Report that the stage still runs, if its next heartbeat is due."""
        now = time.monotonic()
        if now < self._heartbeat_at:
            return
        self._heartbeat_at = now + next(self._waits)
        doing = ", ".join(part.description.partition("  ")[0] for part in self.parts)
        texts = [text for text in (doing or self.words, self._sum()) if text]
        self._notify(f"still running after {clock(now - self.begun)}: {'; '.join(texts)}")


def _line(time_words: str, text: str) -> str:
    """One line below the steps; its time is aligned with theirs.

    >>> _line("8:12", "Network/Nat  AWS::EC2::NatGateway")
    '     8:12 Network/Nat  AWS::EC2::NatGateway'
    """
    return f"{time_words:>{PLACE}} {text}".rstrip()


class LiveNotifier:
    """Prints lines and shows work in progress (`StageNotifier` in model/stages.py)."""

    def __init__(self, notify: Notify, *, details: bool) -> None:
        self._notify = notify
        self._details = details

    def __call__(self, text: str) -> None:
        """Print one line."""
        self._notify(text)

    def stage(self, description: str) -> Stage:
        """Begin a stage."""
        if description:
            self._notify(description)
        return LiveStage(self._notify, description, details=self._details)
