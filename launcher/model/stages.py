"""Stages of a long operation: one line in a pipe, and the work in progress on a terminal."""

from collections.abc import Callable
from types import TracebackType
from typing import Protocol, Self, runtime_checkable

from launcher.model.record import record

Notify = Callable[[str], None]
Text = str | Callable[[], str]


@record
class StagePart:
    """Something in progress within a stage; `begun` is the second of `time.monotonic` at which it began."""

    description: str
    begun: float


class Stage:
    """A stage that reports lines only: work in progress is not shown."""

    def __init__(self, notify: Notify) -> None:
        self._notify = notify

    def now(self, progress: Text = "", *, share: float | None = None, parts: tuple[StagePart, ...] = ()) -> None:
        """Show the progress; each call replaces the previous one.

        `share` is 0 to 1, None if unknown; `parts`: the work in progress.
        """

    def detail(self, text: str) -> None:
        """Report a part that has finished; a display of work in progress may leave it out."""
        self._notify(text)

    def end(self) -> None:
        """The stage is over; a second call does nothing."""

    def __enter__(self) -> Self:
        """Start the stage; it ends with the block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the stage, also after an exception."""
        self.end()


@runtime_checkable
class StageNotifier(Protocol):
    """A `Notify` that also shows work in progress."""

    def __call__(self, text: str) -> None:
        """Report one line."""

    def stage(self, description: str) -> Stage:
        """Begin a stage."""


def stage(notify: Notify, description: str = "") -> Stage:
    """Begin a stage; its words are reported once, at its beginning.

    Args:
        notify: receives each line; shows work in progress if it is a `StageNotifier`.
        description: the description of the stage; empty if the caller has reported it.
    """
    if isinstance(notify, StageNotifier):
        return notify.stage(description)
    if description:
        notify(description)
    return Stage(notify)
