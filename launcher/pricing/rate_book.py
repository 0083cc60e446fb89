"""Rates as plain numbers, for the thousands of places that are compared before an offer is made of any.

The same keys and the same rows as those of `offers`, which has the price with its source for the few that are kept.
"""

from functools import cached_property

from launcher.catalog.load import Catalog
from launcher.catalog.store import Row
from launcher.model.candidate_group import CandidateGroup
from launcher.model.enums import Market, PurchaseOption
from launcher.model.money import Unpriced
from launcher.model.plan import Place
from launcher.model.request import PlanRequest
from launcher.pricing.derived_spot import factor, is_derived
from launcher.pricing.offers import asked_for, override_names, price_key


class RateBook:
    """Dollars per instance-hour, undiscounted: a discount is the same for every place."""

    def __init__(self, request: PlanRequest, catalog: Catalog) -> None:
        """The rates of one request on the catalog's day."""
        self.request = request
        self.selector = catalog.selector

    def rates(self, group: CandidateGroup) -> list[tuple[int, int, float]]:
        """Every location and term of a group, by index, that has a rate."""
        found = []
        for location in range(len(group.locations)):
            for term in range(len(group.terms)):
                rate = self.rate(group.place(location, group.counts[0], term))
                if rate is not None:
                    found.append((location, term, rate))
        return found

    def rate(self, place: Place) -> float | None:
        """The rate at a place, the user's own first; spot without a market is no offer unless it is asked for."""
        for name in override_names(place) if self._overrides else ():
            if name in self._overrides:
                return self._overrides[name]
        key = price_key(place, self.request.purchase.payment)
        row = None if isinstance(key, Unpriced) else self.selector.row(key)
        if row is None or (place.option is PurchaseOption.SPOT and not self._is_offer(row, place)):
            return None
        if is_derived(place):
            times = factor(place, self.selector)
            return None if times is None else float(row.usd) * times
        return float(row.usd)

    def _is_offer(self, row: Row, place: Place) -> bool:
        market = self.selector.market(row, place.instance_type, place.region)
        return market is Market.OPEN or asked_for(place.instance_type, place.region, self.request)

    @cached_property
    def _overrides(self) -> dict[str, float]:
        return {key: float(usd) for key, usd in self.request.purchase.price_overrides.items()}
