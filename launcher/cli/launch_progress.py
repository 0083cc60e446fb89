"""What a person sees while a launch goes on."""

import time

from launcher.cli import output
from launcher.workflow.run.follow import Progress


class Narrator:
    """Prints each step with the time since the start."""

    def __init__(self) -> None:
        """Begin now."""
        self.begun = time.monotonic()
        self.last = ""

    def tell(self, text: str) -> None:
        """Print one step."""
        elapsed = time.monotonic() - self.begun
        output.say(f"  [{elapsed:5.0f} s] {text}")

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
