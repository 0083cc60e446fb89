"""A quote compared with AWS's own calculator for the same lines."""

from decimal import Decimal

from launcher.model.money import sum_usd
from launcher.model.record import record

MAX_APART = Decimal("0.01")
"""Maximum difference from AWS's dollars, as a share of the quoted dollars."""


@record(described=False)
class VerifiedLine:
    """Lines of a quote that AWS bills as one; `aws_usd` is None if AWS gave no price, with the `reason`."""

    names: tuple[str, ...]
    quoted_usd: Decimal | None
    aws_usd: Decimal | None
    # AWS's dollars less the quoted ones; None if one of them is missing.
    difference_usd: Decimal | None
    reason: str | None


@record
class Verification:
    """All lines of a quote; `rate_type` is the kind of AWS rates used in the comparison."""

    rate_type: str
    lines: tuple[VerifiedLine, ...]

    @property
    def compared_lines(self) -> tuple[VerifiedLine, ...]:
        """The lines that have both prices."""
        return tuple(line for line in self.lines if line.difference_usd is not None)

    @property
    def quoted_usd(self) -> Decimal:
        """The quoted dollars of the lines that have both prices."""
        return sum_usd(line.quoted_usd for line in self.compared_lines)

    @property
    def aws_usd(self) -> Decimal:
        """AWS's dollars of the same lines."""
        return sum_usd(line.aws_usd for line in self.compared_lines)

    @property
    def apart(self) -> Decimal | None:
        """The sum of all absolute differences as a share of the quoted dollars; None if no line was compared.

        A line that is too high does not compensate for another that is too low.
        """
        sizes = sum(
            (abs(line.difference_usd) for line in self.compared_lines if line.difference_usd is not None), Decimal(0)
        )
        return sizes / self.quoted_usd if self.quoted_usd else None

    @property
    def holds(self) -> bool:
        """Whether at least one line was compared and the difference is within MAX_APART."""
        return self.apart is not None and self.apart <= MAX_APART
