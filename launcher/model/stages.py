"""Stages of a long operation: one line in a pipe, and the work in progress on a terminal."""

from collections.abc import Callable
from types import TracebackType
from typing import Protocol, Self, runtime_checkable

from launcher.model.record import record

Tell = Callable[[str], None]
Words = str | Callable[[], str]


@record
class Part:
    """Something in progress within a stage; `begun` is the second of `time.monotonic` at which it began."""

    words: str
    begun: float


class Stage:
    """A stage of a story as it is told to somebody who takes lines: what is in progress is not shown."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell

    def now(self, words: Words = "", *, share: float | None = None, parts: tuple[Part, ...] = ()) -> None:
        """Show how far it is; each call replaces the one before.

        `share` is 0 to 1, None where nobody knows; `parts`: what is in progress.
        """

    def detail(self, text: str) -> None:
        """Tell of one part that is over; whoever shows what is in progress may leave it out."""
        self._tell(text)

    def end(self) -> None:
        """The stage is over; a second call does nothing."""

    def __enter__(self) -> Self:
        """The stage lasts as long as the block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Whatever became of the block."""
        self.end()


@runtime_checkable
class Watched(Protocol):
    """A listener that shows what is in progress."""

    def __call__(self, text: str) -> None:
        """Tell one line."""

    def stage(self, words: str) -> Stage:
        """Begin a stage."""


def stage(tell: Tell, words: str = "") -> Stage:
    """Begin a stage of a story: its words are told once, at its beginning.

    Args:
        tell: the story's listener; what is in progress is shown where it can (`Watched`).
        words: what is begun; empty where that was told already.
    """
    if isinstance(tell, Watched):
        return tell.stage(words)
    if words:
        tell(words)
    return Stage(tell)
