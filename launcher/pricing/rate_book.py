"""Rates as plain numbers, to compare thousands of places before Slipway builds an offer for any.

Uses the same keys and rows as `offers`, which returns the price with its source for the few remaining places.
"""

import math
from collections.abc import Iterator
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
from launcher.pricing.derived_spot import factor, is_derived, own_key
from launcher.pricing.gate import GateRules
from launcher.pricing.joint import RandomPrice
from launcher.pricing.offers import is_requested_spot, is_unlisted, override_names, price_key
from launcher.pricing.spot_prices import SpotForecast, ec2_key, random_price, spot_forecast
from launcher.targets.registry import target_of


class RateBook:
    """Dollars per instance-hour, undiscounted: a discount is the same for every place."""

    def __init__(self, request: PlanRequest, catalog: Catalog, rules: GateRules) -> None:
        self.request = request
        self.selector = catalog.selector
        self.rules = rules
        self.forecasts: dict[Key, SpotForecast] = {}
        self._offers: dict[tuple[object, ...], dict[tuple[int, bool], list[tuple[float, int]]]] = {}
        self._least: dict[int, RandomPrice] = {}
        self._ages: dict[tuple[str, PurchaseOption], bool] = {}

    def offers(self, group: CandidateGroup) -> dict[tuple[int, bool], list[tuple[float, int]]]:
        """The rates of a group with their locations, the lowest first, by term and by whether they are doubtful."""
        target = target_of(group.target)
        # Targets that are billed alike have the same rates, unless the plan sets some.
        spot = group.option is PurchaseOption.SPOT
        component = target.sagemaker if spot or group.option is PurchaseOption.ON_DEMAND else target.is_managed
        derived = (target.spot_like_ec2, target.managed_spot) if spot else None
        billed = (component, derived, group.target if self._overrides else None)
        known = (billed, group.instance_type, group.option, group.locations, group.terms)
        if known not in self._offers:
            offers: dict[tuple[int, bool], list[tuple[float, int]]] = {}
            for location, term, rate, doubtful in self.rates(group):
                offers.setdefault((term, doubtful), []).append((rate, location))
            names = [(region, zone or "") for region, zone in group.locations]
            for rates in offers.values():
                rates.sort(key=lambda offer: (offer[0], names[offer[1]]))
            self._offers[known] = offers
        return self._offers[known]

    def rates(self, group: CandidateGroup) -> Iterator[tuple[int, int, float, bool]]:
        """Every location and term of a group, by index, that has a rate; whether it is doubtful.

        It is if the gate refuses it for its age, or if no source lists the type there (`is_unlisted`).
        """
        place, keys = group.place(0, group.node_counts[0], 0), self._keys(group)
        rests, derived = rests_on(place), is_derived(place)
        for location in range(len(group.locations)):
            for term, key in enumerate(keys):
                rate = self._override(group, location, term) if self._overrides else None
                if rate is not None:
                    yield location, term, rate, False
                elif isinstance(key, Key) and (offered := self._offered_at(group, location, key)) is not None:
                    row, published = offered
                    times: float | None = 1.0
                    listed: Row | None = row
                    if derived:
                        here = group.place(location, place.nodes, term)
                        times, listed = factor(here, self.selector), self.selector.row(own_key(here))
                    if times is not None:
                        yield location, term, published * times, self._is_old(row, rests) or is_unlisted(listed)

    def _keys(self, group: CandidateGroup) -> tuple[Key | Unpriced, ...]:
        """The keys of a group's prices by term, in the region of its first place."""
        places = (group.place(0, group.node_counts[0], term) for term in range(len(group.terms)))
        return tuple(price_key(place, self.request.purchase.payment) for place in places)

    def _override(self, group: CandidateGroup, location: int, term: int) -> float | None:
        names = override_names(group.place(location, group.node_counts[0], term))
        return next((self._overrides[name] for name in names if name in self._overrides), None)

    def _offered_at(self, group: CandidateGroup, location: int, key: Key) -> tuple[Row, float] | None:
        """The catalog's row and rate at a location; None if it offers none there.

        Spot without a market is no offer unless the user requested it.
        """
        region, zone = group.locations[location]
        spot = key.kind == SPOT
        here = key.at(region, zone or "" if spot else "")
        row = self.selector.row(here)
        if row is None or (spot and not self._is_offer(row, group.instance_type, region)):
            return None
        return row, self.forecast(here, row).middle if spot else float(row.usd)

    def _is_old(self, row: Row, rests: PurchaseOption) -> bool:
        """Whether a row is too old for a launch on AWS."""
        key = (row.as_of, rests)
        if key not in self._ages:
            age = days_age(row.as_of, rests, self.rules.today, self.rules.max_age_days)
            self._ages[key] = age.too_old
        return self._ages[key]

    def forecast(self, key: Key, row: Row) -> SpotForecast:
        """The forecast of a spot price, computed once for a zone."""
        if key not in self.forecasts:
            self.forecasts[key] = spot_forecast(row, key, self.selector, self.rules.today)
        return self.forecasts[key]

    def random_price(self, place: Place, rate: float, hours: float) -> RandomPrice:
        """The distribution of a spot price while a job runs for some hours, undiscounted."""
        sure = any(name in self._overrides for name in override_names(place)) if self._overrides else False
        return random_price(place, rate, self.forecasts.get(ec2_key(place)), hours, sure=sure)

    def least_price(self, group: CandidateGroup, rates: list[tuple[float, int]]) -> RandomPrice:
        """A price with the median 1 that reaches as high as the spot price of any of a group's places, or less."""
        key = id(rates)
        if key not in self._least:
            nodes = group.node_counts[0]
            prices = [self.random_price(group.place(location, nodes, 0), rate, math.inf) for rate, location in rates]
            scale = max([price.scale for price in prices])
            ceiling = min([price.ceiling / price.mid for price in prices])
            self._least[key] = RandomPrice(1.0, scale, 0.0, ceiling)
        return self._least[key]

    def _is_offer(self, row: Row, instance_type: str, region: str) -> bool:
        market = self.selector.market(row, instance_type, region)
        return market is Market.OPEN or is_requested_spot(instance_type, region, self.request)

    @cached_property
    def _overrides(self) -> dict[str, float]:
        return {key: float(usd) for key, usd in self.request.purchase.price_overrides.items()}
