"""What a person sees and is asked while something is priced, deployed or launched."""

import time

from launcher.cli import output
from launcher.cli.confirm import confirm
from launcher.cli.quote_page import page as quote_page
from launcher.cli.table import terminal_width
from launcher.pricing.priced import Priced
from launcher.workflow.quote.fresh import Picked
from launcher.workflow.run.follow import Progress


class Narrator:
    """Prints each step with the time since the first."""

    def __init__(self) -> None:
        """Nothing has been told yet."""
        self.begun: float | None = None
        self.last = ""

    def tell(self, text: str) -> None:
        """Print one step."""
        now = time.monotonic()
        self.begun = self.begun if self.begun is not None else now
        output.say(f"  [{now - self.begun:5.0f} s] {text}")

    def progress(self, now: Progress) -> None:
        """Print how the job stands, when that has changed."""
        parts = [f"attempt {now.attempt}"]
        if now.step is not None:
            parts.append(f"step {now.step}" + (f" of {now.steps}" if now.steps else ""))
        if now.loss is not None:
            parts.append(f"loss {now.loss:.3f}")
        if now.saved_step is not None:
            parts.append(f"saved at step {now.saved_step}")
        line = "  ".join(parts)
        if line != self.last and len(parts) > 1:
            self.last = line
            self.tell(line)


class Console(Narrator):
    """The same for a person who is shown prices and asked."""

    def __init__(self, *, yes: bool) -> None:
        """Keep whether everything that would be asked is answered already."""
        super().__init__()
        self.yes = yes

    def say(self, text: str) -> None:
        """Print something beside the story."""
        output.say(text)

    def show(self, priced: Priced, *, called: bool) -> None:
        """The candidates."""
        from launcher.cli.plan_page import page

        for line in page(priced, terminal_width(), everything=False, called=called):
            output.say(line)

    def quote(self, picked: Picked) -> None:
        """The quote."""
        priced, rank, quoted = picked
        for line in quote_page(quoted, rank, terminal_width(), priced.now.date(), str(priced.path)):
            output.say(line)

    def approve(self, picked: Picked, what: str) -> None:
        """The quote, and a question."""
        self.quote(picked)
        confirm(what, yes=self.yes)
