"""One way to buy a workload, with its middle total: enough to rank all candidates; only a few get quotes."""

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

Order: TypeAlias = tuple[bool, bool, bool, Decimal, bool, float, float, str, str, int]
"""The sort key of candidates."""


class Candidate(Protocol):
    """The common interface of priced training and serving candidates."""

    @property
    def place(self) -> Place:
        """The place, without prices."""

    @property
    def offer(self) -> Offer:
        """The price of one instance in the place, or the reason why it has none."""

    @property
    def hazard(self) -> Hazard | None:
        """Spot interruptions; None if the purchase option is not spot."""

    @property
    def context(self) -> PricingContext:
        """The request and the prices."""

    @property
    def accelerator(self) -> str:
        """The name of the chip; "" if the type has no known chip."""

    @property
    def hours(self) -> float:
        """Expected wall hours that are priced: of the job, or of a month."""

    @property
    def components(self) -> tuple[CostComponent, ...]:
        """Every line of the bill."""

    @property
    def line_dates(self) -> Sequence[tuple[date, str]]:
        """The dates of the non-compute prices, with the names of their lines, the oldest first."""

    @property
    def usd(self) -> Decimal | None:
        """The total of the bill in the middle case; None when the compute is unpriced."""

    @property
    def unknown_fees(self) -> tuple[str, ...]:
        """The keys of the service's fees that have no price."""

    @property
    def refusals(self) -> tuple[Finding, ...]:
        """The findings that make the candidate impossible at any cost."""

    @property
    def unnamed(self) -> tuple[Finding, ...]:
        """What a launch needs and the plan does not name: capacity that the user bought, an endpoint's weights."""

    @property
    def plan(self) -> Plan:
        """The plan with every choice decided."""

    @property
    def digest(self) -> str:
        """The digest of that plan."""


AnyCandidate = TypeVar("AnyCandidate", bound=Candidate)


def order(candidate: Candidate) -> Order:
    """The sort key of a candidate.

    Ties go to a candidate with a published price, then to the shorter one, then by name, so the order is stable.
    """
    instance_hours = 0.0 if candidate.usd is not None else candidate.hours * candidate.place.nodes
    place = candidate.place
    where = f"{place.region} {place.az_id or ''} {place.option} {place.plan_kind or ''} {place.term_years or ''}"
    return (
        candidate.usd is None,
        bool(candidate.unknown_fees),
        bool(candidate.refusals),
        candidate.usd or Decimal(0),
        is_derived(place),
        instance_hours,
        candidate.hours,
        place.instance_type,
        where,
        place.nodes,
    )


def cheapest_fixed(candidates: Iterable[Candidate]) -> Decimal | None:
    """The lowest total of the priced candidates that are not on spot."""
    fixed = (candidate for candidate in candidates if candidate.hazard is None and not candidate.unknown_fees)
    return min((candidate.usd for candidate in fixed if candidate.usd is not None), default=None)
