"""The part of a quote's total that is not the job's work: everything but its instance hours and what it stores."""

from collections.abc import Iterable
from decimal import Decimal

from launcher.model.money import CostComponent
from launcher.model.record import record

START_UP, IDLE_TAIL = "start-up of the nodes", "idle tail"
"""The compute lines of hours in which no job runs."""
MAX_NAMED = 3
SHARE_CODE = "overhead-share"
"""The code of the finding on a high share."""
HIGH_SHARE = 1 / 3
"""A share of the total from which the quote names a target with a lower one."""


@record
class OverheadCost:
    """Dollars of a total that are not the job's work; `largest` are the names of the largest lines."""

    usd: Decimal
    total_usd: Decimal
    largest: tuple[str, ...]

    @property
    def share(self) -> float:
        """The part of the total, from 0 to 1."""
        return float(self.usd / self.total_usd) if self.total_usd else 0.0

    @property
    def text(self) -> str:
        """The overhead in words."""
        names = f": {', '.join(self.largest)}" if self.largest else ""
        return f"not the work: ${self.usd:,.2f} of ${self.total_usd:,.2f} ({self.share:.0%}){names}".replace(
            "%)", " %)"
        )


def overhead_of(components: Iterable[CostComponent]) -> OverheadCost:
    """The overhead of a training quote's lines: start-up, idle tail, network, head node, monitoring.

    Instance hours of the job, and storage, are the work.
    """
    priced = [(component, component.usd) for component in components if component.usd is not None]
    lines = [(usd, component.name) for component, usd in priced if _is_overhead(component)]
    largest = sorted((line for line in lines if line[0]), reverse=True)[:MAX_NAMED]
    return OverheadCost(
        usd=sum((usd for usd, _ in lines), Decimal(0)),
        total_usd=sum((usd for _, usd in priced), Decimal(0)),
        largest=tuple(name for _, name in largest),
    )


def _is_overhead(component: CostComponent) -> bool:
    if component.group == "compute":
        return component.name in (START_UP, IDLE_TAIL)
    return component.group != "storage"
