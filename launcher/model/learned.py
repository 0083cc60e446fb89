"""Hours around a job, learned from your runs."""

from datetime import date

from launcher.model.record import record


@record
class Learned:
    """A quantity estimated from the user's own runs: its middle, a range, and its evidence.

    `runs` are the runs in which it was measured, `as_of` the day of the last. `steps` are the calculation by lines.
    `contradiction` names the runs that contradict each other, "" if none do.
    """

    low: float
    mid: float
    high: float
    runs: tuple[str, ...]
    as_of: date
    steps: tuple[str, ...]
    contradiction: str = ""

    @property
    def source(self) -> str:
        """The source, as shown in a line of a quote."""
        count = len(self.runs)
        return f"measured, {count} run{'s' if count > 1 else ''}, {self.as_of}"
