"""One way to buy a workload, with its middle total: enough to rank them all; quotes are made of the few shown."""

from collections.abc import Iterable, Sequence
from datetime import date
from decimal import Decimal
from typing import Protocol, TypeAlias, TypeVar

from launcher.model.finding import Finding
from launcher.model.money import CostComponent
from launcher.model.plan import Place, Plan
from launcher.pricing.context import PricingContext
from launcher.pricing.derived_spot import is_derived
from launcher.pricing.hazard import Hazard
from launcher.pricing.offers import Offer


class Candidate(Protocol):
    """What training and serving have in common once they are priced."""

    @property
    def place(self) -> Place:
        """Where and how, without money."""

    @property
    def offer(self) -> Offer:
        """The price of one instance there, or why there is none."""

    @property
    def hazard(self) -> Hazard | None:
        """Spot interruptions; None unless it is bought as spot."""

    @property
    def context(self) -> PricingContext:
        """The request and the prices."""

    @property
    def accelerator(self) -> str:
        """The name of its chip; "" where it has none that is known."""

    @property
    def hours(self) -> float:
        """Wall hours that are priced, expected: of the job, or of a month."""

    @property
    def components(self) -> tuple[CostComponent, ...]:
        """Every line of the bill."""

    @property
    def line_dates(self) -> Sequence[tuple[date, str]]:
        """The dates of the prices beside the compute, with the names of their lines, the oldest first."""

    @property
    def usd(self) -> Decimal | None:
        """The whole bill in the middle case; None when the compute is unpriced."""

    @property
    def missing_usd(self) -> Decimal:
        """What the lines without a price come to at the dearest prices of other regions; in no total."""

    @property
    def unknown_fees(self) -> tuple[str, ...]:
        """The keys of the service's fees that have no price."""

    @property
    def refusals(self) -> tuple[Finding, ...]:
        """What makes it impossible, whatever it costs."""

    @property
    def plan(self) -> Plan:
        """The plan with everything decided."""


AnyCandidate = TypeVar("AnyCandidate", bound=Candidate)


def ranked(candidates: Iterable[AnyCandidate]) -> list[AnyCandidate]:
    """Drafts in the order they are shown: priced before unpriced, possible before impossible, then by the total.

    Lines that have no price in a region count at the dearest of the others, so that what is unknown is not cheap. What
    a service charges an unknown fee for comes after all that is priced.
    """
    return sorted(candidates, key=order)


Order: TypeAlias = tuple[bool, bool, bool, Decimal, bool, float, float, str, str, int]
"""What candidates are sorted by."""


def order(candidate: Candidate) -> Order:
    """What candidates are sorted by.

    Ties go to what has a price that somebody published, then to the shorter, then by name, so that the order is stable.
    """
    instance_hours = 0.0 if candidate.usd is not None else candidate.hours * candidate.place.nodes
    place = candidate.place
    where = f"{place.region} {place.az_id or ''} {place.option} {place.plan_kind or ''} {place.term_years or ''}"
    return (
        candidate.usd is None,
        bool(candidate.unknown_fees),
        bool(candidate.refusals),
        Decimal(0) if candidate.usd is None else candidate.usd + candidate.missing_usd,
        is_derived(place),
        instance_hours,
        candidate.hours,
        place.instance_type,
        where,
        place.nodes,
    )


def cheapest_fixed(candidates: Iterable[Candidate]) -> Decimal | None:
    """The least total of the priced candidates that are not on spot."""
    fixed = (candidate for candidate in candidates if candidate.hazard is None and not candidate.unknown_fees)
    return min((candidate.usd for candidate in fixed if candidate.usd is not None), default=None)
