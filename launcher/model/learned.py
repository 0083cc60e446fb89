"""Hours around a job, learned from your runs."""

from datetime import date

from launcher.model.record import record


@record
class Learned:
    """A quantity as it is known after one's own runs: its middle, a range, and what it rests on.

    `runs` are the runs that it was measured in, `as_of` the day of the last. `steps` are the arithmetic, one line each.
    `contradiction` names the runs that lie further apart than they may, "" where none do.
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
        """Where it is from, as a line of a quote has it."""
        count = len(self.runs)
        return f"measured, {count} run{'s' if count > 1 else ''}, {self.as_of}"
