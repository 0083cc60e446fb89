"""What the user's own runs taught: hours around a job, and the error of the estimated rate."""

from datetime import date

from launcher.model.record import record
from launcher.model.units import number_of

RUN_TO_RUN = 0.03
"""Two runs of one job on one type of node differ by this much, in logarithms; judgement."""


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
        return f"measured, {number_of(count, 'run')}, {self.as_of}"


@record
class Cell:
    """All measurements of one job, pooled: their error, its variance, and the distance of that job from this one."""

    runs: tuple[str, ...]
    description: str
    error: float
    variance: float
    discount: float
    contradiction: bool

    @property
    def total_variance(self) -> float:
        """The total variance of the error if applied to this job."""
        return self.variance + RUN_TO_RUN**2 + self.discount**2


@record
class Posterior:
    """The error of the estimate after the measurements, in logarithms, and the cells that it was computed from."""

    shift: float
    scale: float
    prior_scale: float
    cells: tuple[Cell, ...]
    contradiction: bool
