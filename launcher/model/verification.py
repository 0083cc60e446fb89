"""A quote beside the result of AWS's own calculator for the same lines."""

from decimal import Decimal

from launcher.model.money import sum_usd
from launcher.model.record import record

MOST_APART = Decimal("0.01")
"""Share of the quoted dollars by which AWS's may differ."""


@record
class VerifiedLine:
    """Lines of a quote that AWS bills as one; `aws_usd` is None where it gave no price, with the `reason`."""

    names: tuple[str, ...]
    quoted_usd: Decimal | None
    aws_usd: Decimal | None
    reason: str = ""

    @property
    def difference_usd(self) -> Decimal | None:
        """AWS's less the quoted; None where one of them is missing."""
        return None if self.quoted_usd is None or self.aws_usd is None else self.aws_usd - self.quoted_usd


@record
class Verification:
    """All lines of a quote; `rate_type` is which of AWS's rates they were held against."""

    rate_type: str
    lines: tuple[VerifiedLine, ...]

    @property
    def compared(self) -> tuple[VerifiedLine, ...]:
        """The lines that have both prices."""
        return tuple(line for line in self.lines if line.difference_usd is not None)

    @property
    def quoted_usd(self) -> Decimal:
        """The quoted dollars of the lines that have both."""
        return sum_usd(line.quoted_usd for line in self.compared)

    @property
    def aws_usd(self) -> Decimal:
        """AWS's dollars of the same."""
        return sum_usd(line.aws_usd for line in self.compared)

    @property
    def apart(self) -> Decimal | None:
        """The differences of all lines, whatever their sign, as a share of the quoted; None where nothing is compared.

        One line that is too dear does not make up for another that is too cheap.
        """
        sizes = sum((abs(line.difference_usd) for line in self.compared if line.difference_usd is not None), Decimal(0))
        return sizes / self.quoted_usd if self.quoted_usd else None

    @property
    def holds(self) -> bool:
        """Whether something was compared and is close enough."""
        return self.apart is not None and self.apart <= MOST_APART
