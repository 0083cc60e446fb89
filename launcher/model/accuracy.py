"""Quotes compared with measurements of your runs."""

from collections.abc import Iterable
from decimal import Decimal

from launcher.model.money import Range, UsdRange
from launcher.model.record import record

NEAR = 1.25


@record
class RunAccuracy:
    """One run: its quote and its result; None if one of the two is unknown.

    Hours and dollars are compared only for successful runs, because a shortened run does not measure the whole job.
    """

    name: str
    run: str
    instance_type: str
    nodes: int
    simulated: bool
    succeeded: bool
    quoted_tokens_per_s: Range | None
    tokens_per_s: float | None
    quoted_hours: Range
    hours: float
    quoted_usd: UsdRange | None
    # The billed amount, else the cost of the hours by the quote, with a prepaid fee in full on both sides.
    usd: Decimal | None
    # Compute dollars an instance-hour, billed over quoted.
    rate_billed: float | None = None
    # Instance-hours, billed over quoted.
    quantity_billed: float | None = None

    @property
    def rate_ratio(self) -> float | None:
        """Measured over quoted tokens a second."""
        if self.quoted_tokens_per_s is None or self.tokens_per_s is None:
            return None
        return self.tokens_per_s / self.quoted_tokens_per_s.mid

    @property
    def hours_ratio(self) -> float | None:
        """Measured over quoted hours."""
        return self.hours / self.quoted_hours.mid if self.succeeded and self.hours and self.quoted_hours.mid else None

    @property
    def usd_ratio(self) -> float | None:
        """Billed dollars, or dollars by the quote's lines, over quoted dollars."""
        if not self.succeeded or self.quoted_usd is None or not self.quoted_usd.mid or self.usd is None:
            return None
        return float(self.usd / self.quoted_usd.mid)

    @property
    def rate_covered(self) -> bool | None:
        """Whether the rate lay in the quoted range."""
        quoted, actual = self.quoted_tokens_per_s, self.tokens_per_s
        return None if quoted is None or actual is None else quoted.low <= actual <= quoted.high

    @property
    def hours_covered(self) -> bool | None:
        """Whether the hours lay in the quoted range."""
        return None if self.hours_ratio is None else self.quoted_hours.low <= self.hours <= self.quoted_hours.high

    @property
    def usd_covered(self) -> bool | None:
        """Whether the dollars lay in the quoted range."""
        if self.usd_ratio is None or self.quoted_usd is None or self.usd is None:
            return None
        return self.quoted_usd.low <= self.usd <= self.quoted_usd.high


@record
class Accuracy:
    """The number of known ratios, the fraction within 0.8 to 1.25, and the fraction inside the quoted range."""

    n: int
    within_25: float | None
    covered: float | None


def accuracy(runs: Iterable[tuple[float | None, bool | None]]) -> Accuracy:
    """The accuracy of ratios of measured over quoted, each with whether it lay in the quoted range.

    >>> accuracy([(1.0, True), (1.5, True), (None, None), (0.5, False), (0.9, False)])
    Accuracy(n=4, within_25=0.5, covered=0.5)
    """
    known = [(ratio, covered) for ratio, covered in runs if ratio is not None]
    if not known:
        return Accuracy(n=0, within_25=None, covered=None)
    return Accuracy(
        n=len(known),
        within_25=sum(1 / NEAR <= ratio <= NEAR for ratio, _ in known) / len(known),
        covered=sum(bool(covered) for _, covered in known) / len(known),
    )
