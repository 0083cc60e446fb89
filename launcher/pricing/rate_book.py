"""Rates as plain numbers, to compare thousands of places before Slipway builds an offer for any.

Uses the same keys and rows as `offers`, which returns the price with its source for the few remaining places.
"""

from datetime import date
from functools import cached_property

from launcher.catalog.load import Catalog
from launcher.catalog.selector import SPOT, Key
from launcher.catalog.store import Row
from launcher.model.candidate_group import CandidateGroup
from launcher.model.enums import Market, PurchaseOption
from launcher.model.money import Unpriced
from launcher.model.plan import Place
from launcher.model.request import PlanRequest
from launcher.pricing.ages import days_age, rests_on
from launcher.pricing.derived_spot import factor, is_derived
from launcher.pricing.gate import GateRules
from launcher.pricing.joint import RandomPrice
from launcher.pricing.offers import is_requested_spot, override_names, price_key
from launcher.pricing.spot_prices import SpotForecast, ec2_key, random_price, spot_forecast


class RateBook:
    """Dollars per instance-hour, undiscounted: a discount is the same for every place."""

    def __init__(self, request: PlanRequest, catalog: Catalog, today: date) -> None:
        self.request = request
        self.selector = catalog.selector
        self.today = today
        self.forecasts: dict[Key, SpotForecast] = {}

    def rates(self, group: CandidateGroup) -> list[tuple[int, int, float]]:
        """Every location and term of a group, by index, that has a rate."""
        rates = []
        places = [group.place(0, group.node_counts[0], term) for term in range(len(group.terms))]
        keys = [price_key(place, self.request.purchase.payment) for place in places]
        for location in range(len(group.locations)):
            for term, key in enumerate(keys):
                rate = self._override(group, location, term) if self._overrides else None
                if rate is None and isinstance(key, Key):
                    rate = self._published(group, location, term, key)
                if rate is not None:
                    rates.append((location, term, rate))
        return rates

    def is_old(self, group: CandidateGroup, location: int, term: int, rules: GateRules) -> bool:
        """Whether the gate refuses the rate of a location and term for its age."""
        place = group.place(location, group.node_counts[0], term)
        key = price_key(place, self.request.purchase.payment)
        if rules.any_age or isinstance(key, Unpriced) or self._override(group, location, term) is not None:
            return False
        region, zone = group.locations[location]
        row = self.selector.row(key.at(region, zone or "" if group.option is PurchaseOption.SPOT else ""))
        return row is not None and days_age(row.as_of, rests_on(place), rules.today, rules.max_age_days).too_old

    def _override(self, group: CandidateGroup, location: int, term: int) -> float | None:
        names = override_names(group.place(location, group.node_counts[0], term))
        return next((self._overrides[name] for name in names if name in self._overrides), None)

    def _published(self, group: CandidateGroup, location: int, term: int, key: Key) -> float | None:
        """The catalog's rate at a place; spot without a market is no offer unless the user requested it."""
        region, zone = group.locations[location]
        spot = group.option is PurchaseOption.SPOT
        here = key.at(region, zone or "" if spot else "")
        row = self.selector.row(here)
        if row is None or (key.kind == SPOT and not self._is_offer(row, group.instance_type, region)):
            return None
        rate = float(row.usd)
        if key.kind == SPOT:
            rate = self.forecast(here, row).middle
        if spot and is_derived(place := group.place(location, group.node_counts[0], term)):
            times = factor(place, self.selector)
            return None if times is None else rate * times
        return rate

    def forecast(self, key: Key, row: Row) -> SpotForecast:
        """The forecast of a spot price, computed once for a zone."""
        if key not in self.forecasts:
            self.forecasts[key] = spot_forecast(row, key, self.selector, self.today)
        return self.forecasts[key]

    def random_price(self, place: Place, rate: float, hours: float) -> RandomPrice:
        """The distribution of a spot price while a job runs for some hours, undiscounted."""
        sure = any(name in self._overrides for name in override_names(place)) if self._overrides else False
        return random_price(place, rate, self.forecasts.get(ec2_key(place)), hours, sure=sure)

    def _is_offer(self, row: Row, instance_type: str, region: str) -> bool:
        market = self.selector.market(row, instance_type, region)
        return market is Market.OPEN or is_requested_spot(instance_type, region, self.request)

    @cached_property
    def _overrides(self) -> dict[str, float]:
        return {key: float(usd) for key, usd in self.request.purchase.price_overrides.items()}
