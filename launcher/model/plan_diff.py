"""The effect of a plan change on totals: by plan and by line, with the reasons."""

from decimal import Decimal
from enum import StrEnum
from functools import cached_property

from launcher.model.record import record

UNKNOWN_NOW = "it has no total now"
"""First reason of a plan whose total is unknown after the change."""


class LineChange(StrEnum):
    """Why the dollars of a bill line change."""

    PRICE = "price"
    QUANTITY = "quantity"
    BOTH = "price-and-quantity"
    NEW = "new"
    GONE = "gone"
    UNPRICED = "unpriced"
    NONE = "unchanged"


@record
class LineDiff:
    """One line of a bill before and after, in dollars; None if the line is missing or has no price."""

    name: str
    old_usd: Decimal | None
    new_usd: Decimal | None
    change: LineChange


@record
class PlanDiff:
    """One plan before and after: the middle totals of a run, or of a month of serving (`unit`).

    A total is None if the plan is missing or its compute has no price; `why` gives the reason.
    """

    name: str
    file: str
    unit: str
    old_usd: Decimal | None
    new_usd: Decimal | None
    why: tuple[str, ...]
    lines: tuple[LineDiff, ...]

    @property
    def unknown_now(self) -> bool:
        """Whether the plan exists after the change, and has no total."""
        return self.new_usd is None and self.why[:1] == (UNKNOWN_NOW,)

    @property
    def usd_change(self) -> Decimal:
        """The additional cost; a missing total counts as 0, and an unknown one as no change."""
        if self.unknown_now:
            return Decimal(0)
        return (self.new_usd or Decimal(0)) - (self.old_usd or Decimal(0))


@record(slots=False)
class PlansDiff:
    """Every changed plan of the `looked_at` examined ones, between two named sides."""

    old: str
    new: str
    plans: tuple[PlanDiff, ...]
    looked_at: int

    @cached_property
    def old_usd(self) -> Decimal:
        """The total before, for one run or month of every changed plan."""
        return sum((plan.old_usd or Decimal(0) for plan in self.plans), Decimal(0))

    @cached_property
    def usd_change(self) -> Decimal:
        """The additional cost of all plans together."""
        return sum((plan.usd_change for plan in self.plans), Decimal(0))

    @property
    def percent(self) -> float | None:
        """The change in percent of the changed plans' cost before; None if that cost was 0."""
        return float(self.usd_change / self.old_usd * 100) if self.old_usd else None


@record
class DiffPolicy:
    """The maximum allowed increase, in dollars and in percent; None: unlimited."""

    max_increase_usd: Decimal | None = None
    max_increase_percent: float | None = None

    def refusal(self, difference: PlansDiff) -> str | None:
        """Why a change exceeds the policy, in words; None if it does not.

        A plan that lost its total exceeds every policy, also an empty one: it cannot be launched, or has no price.
        A limit is also exceeded by a plan that never had one.
        """
        limited = self.max_increase_usd is not None or self.max_increase_percent is not None
        unknown = [plan for plan in difference.plans if plan.unknown_now and (limited or plan.old_usd is not None)]
        if unknown:
            return "; ".join(f"{plan.file} has no total: {plan.why[1]}" for plan in unknown)
        if self.max_increase_usd is not None and difference.usd_change > self.max_increase_usd:
            return f"${difference.usd_change:,.2f} more, allowed are ${self.max_increase_usd:,.2f}"
        percent = difference.percent
        if self.max_increase_percent is not None and percent is not None and percent > self.max_increase_percent:
            return f"{percent:.1f} % more, allowed are {self.max_increase_percent:g} %"
        return None
