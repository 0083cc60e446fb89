"""What a person sees and is asked while something is priced, deployed or launched."""

import time
from types import TracebackType
from typing import Self

from launcher.answers.lines import wrapped
from launcher.answers.quote import page as quote_page
from launcher.answers.quote_brief import page as brief_page
from launcher.cli import output
from launcher.cli.confirm import confirm, refuse_without_terminal
from launcher.cli.job_line import JobLine
from launcher.cli.live import SCREEN, Teller
from launcher.model.durations import clock
from launcher.model.meter import Meter
from launcher.pricing.priced import Priced
from launcher.workflow.quote.fresh import Picked
from launcher.workflow.run.follow import Progress

CLOCK = len("  [ 0:00] ")
"""Columns before the words of a step."""


class Narrator:
    """Prints each step with the time since the first, and shows below them what is in progress."""

    def __init__(self) -> None:
        """Nothing has been told yet."""
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
        """Print one step, after what was last seen of the job."""
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
        """Keep whether everything that would be asked is answered already."""
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
