"""Rates as plain numbers, for the thousands of places that are compared before an offer is made of any.

The same rules as `offers`, which has the price with its source for the few that are kept; a test holds them together.
"""

from collections.abc import Sequence
from functools import cached_property
from operator import attrgetter

from launcher.catalog.commitments import PARITY, rate_of
from launcher.catalog.load import Catalog
from launcher.catalog.market import market_of
from launcher.catalog.selection import newest
from launcher.catalog.store import Row, TermRow
from launcher.model.enums import Market, PlanKind, PurchaseOption
from launcher.model.request import PlanRequest
from launcher.model.way import Way
from launcher.pricing.offers import MANAGED, asked_for, billed_name

_usd = attrgetter("usd")


class RateBook:
    """Dollars per instance-hour, undiscounted: a discount is the same for every place."""

    def __init__(self, request: PlanRequest, catalog: Catalog) -> None:
        """The rates of one request on the catalog's day."""
        self.request = request
        self.catalog = catalog
        self.store = catalog.store
        self.until = catalog.until

    def rates(self, way: Way) -> list[tuple[int, int, float]]:
        """Every site and term of a way, by index, that has a rate."""
        found = []
        for site, (region, zone) in enumerate(way.sites):
            for term, (kind, years) in enumerate(way.terms):
                rate = self._own(way, region)
                if rate is None:
                    rate = self._listed(way, region, zone, kind, years)
                if rate is not None:
                    found.append((site, term, rate))
        return found

    @cached_property
    def _overrides(self) -> dict[str, float]:
        return {key: float(usd) for key, usd in self.request.purchase.price_overrides.items()}

    def _own(self, way: Way, region: str) -> float | None:
        """The user's own rate."""
        if not self._overrides:
            return None
        key = f"{billed_name(way.target, way.instance_type)}/{way.option.value}"
        return self._overrides.get(f"{key}/{region}", self._overrides.get(key))

    def _listed(
        self, way: Way, region: str, zone: str | None, kind: PlanKind | None, years: int | None
    ) -> float | None:
        """The catalog's rate."""
        if way.target in MANAGED:
            return self._managed(way, region, kind, years)
        key = (way.instance_type, region)
        found = None
        match way.option:
            case PurchaseOption.ON_DEMAND:
                found = self._whole_region(self.store.on_demand.get(key, ()))
            case PurchaseOption.SPOT:
                found = self._spot(way, region, zone)
            case PurchaseOption.CAPACITY_BLOCK:
                rows = self.store.capacity_blocks.get(key, ())
                found = self._newest([row for row in rows if not row.zone] or rows)
            case PurchaseOption.TRAINING_PLAN:
                found = self._whole_region(self.store.training_plans.get(key, ()))
            case PurchaseOption.RESERVED:
                found = self._term(self._reserved(key, "standard", years))
            case PurchaseOption.SAVINGS_PLAN:
                found = self._savings_plan(key, kind or PlanKind.COMPUTE, years)
            case PurchaseOption.BEDROCK:
                pass
        return found

    def _managed(self, way: Way, region: str, kind: PlanKind | None, years: int | None) -> float | None:
        """The rate of a SageMaker instance for HyperPod: of what it is billed as, or a newer one of another service."""
        key = (billed_name(way.target, way.instance_type), region)
        match way.option:
            case PurchaseOption.ON_DEMAND:
                rows = self.store.sagemaker.get(key, ())
                own = newest([row for row in rows if row.zone == "cluster"], _usd, self.until)
                other = newest([row for row in rows if row.zone != "cluster"], _usd, self.until)
                row = other if other is not None and (own is None or other.as_of > own.as_of) else own
                return None if row is None else float(row.usd)
            case PurchaseOption.TRAINING_PLAN:
                return self._whole_region(self.store.training_plans.get((way.instance_type, region), ()))
            case PurchaseOption.SAVINGS_PLAN if kind is PlanKind.SAGEMAKER:
                plans = self.store.savings_plans.get((*key, kind.value, str(years or 1)), ())
                return self._term(newest(plans, rate_of(self.request.purchase.payment), self.until))
            case _:
                return None

    def _whole_region(self, rows: Sequence[Row]) -> float | None:
        return self._newest([row for row in rows if not row.zone])

    def _newest(self, rows: Sequence[Row]) -> float | None:
        row = newest(rows, _usd, self.until)
        return None if row is None else float(row.usd)

    def _spot(self, way: Way, region: str, zone: str | None) -> float | None:
        """A zone's spot rate; rows without a market are no offers unless that very place is asked for."""
        key = (way.instance_type, region)
        row = newest([row for row in self.store.spot.get(key, ()) if row.zone == zone], _usd, self.until)
        if row is None:
            return None
        if market_of(row.usd, self.store.on_demand.get(key, ())) is not Market.OPEN:
            return float(row.usd) if asked_for(way.instance_type, region, self.request) else None
        return float(row.usd)

    def _reserved(self, key: tuple[str, str], offering: str, years: int | None) -> TermRow | None:
        rows = self.store.reserved.get((*key, offering, str(years or 1)), ())
        return newest(rows, rate_of(self.request.purchase.payment), self.until)

    def _term(self, row: TermRow | None) -> float | None:
        return None if row is None else float(rate_of(self.request.purchase.payment)(row))

    def _savings_plan(self, key: tuple[str, str], kind: PlanKind, years: int | None) -> float | None:
        """The rate read from AWS, or the newer one of the Reserved Instance that it should equal.

        A SageMaker plan covers no EC2 instance, and every way here is one.
        """
        if kind is PlanKind.SAGEMAKER:
            return None
        rows = self.store.savings_plans.get((*key, kind.value, str(years or 1)), ())
        read = newest(rows, rate_of(self.request.purchase.payment), self.until)
        equal = self._reserved(key, PARITY[kind], years) if kind in PARITY else None
        if read is not None and (equal is None or read.as_of >= equal.as_of):
            return self._term(read)
        return self._term(equal)
