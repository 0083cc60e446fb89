"""Hours around a job, learned from your runs."""

from datetime import date

from launcher.model.record import record


@record
class Learned:
    """A quantity estimated from the user's own runs: its middle, a range, and its evidence."""

    low: float
    mid: float
    high: float
    # The runs in which it was measured.
    runs: tuple[str, ...]
    # The day of the last of them.
    as_of: date
    # The calculation, line by line.
    steps: tuple[str, ...]
    # The runs that contradict each other, "" if none do.
    contradiction: str = ""

    @property
    def source(self) -> str:
        """The source, as shown in a line of a quote."""
        count = len(self.runs)
        return f"measured, {count} run{'s' if count > 1 else ''}, {self.as_of}"
