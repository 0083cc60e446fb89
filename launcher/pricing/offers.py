"""What a place costs: the price of one instance-hour there, or why there is none."""

from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal

from launcher.catalog.load import Catalog
from launcher.model.enums import Availability, Basis, Market, PlanKind, PurchaseOption
from launcher.model.money import Price, Unpriced
from launcher.model.plan import Place
from launcher.model.request import PlanRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A place with its price and what is known about getting it."""

    price: Price | Unpriced
    availability: Availability


def offer(place: Place, request: PlanRequest, catalog: Catalog, today: date) -> Offer:
    """The offer at a place: the user's own price first, then the catalog's, less the plan's discount."""
    own = _override(place, request, today)
    if own is not None:
        return Offer(price=own, availability=Availability.UNKNOWN)
    price = _listed(place, request, catalog)
    availability = Availability.UNKNOWN
    if isinstance(price, Price):
        availability = Availability.OFFERED
        if place.option is PurchaseOption.CAPACITY_BLOCK:
            availability = Availability.LEAD_TIME
        if price.market is not Market.OPEN:
            availability = Availability.NO_MARKET
            if not _is_pinned(place, request):
                price = Unpriced(reason=_no_market(price), seen=price)
    return Offer(price=_discounted(price, request), availability=availability)


def _override(place: Place, request: PlanRequest, today: date) -> Price | None:
    """The user's price for a place; the one that names the region goes before the one that does not."""
    key = f"{place.instance_type}/{place.option.value}"
    overrides = request.purchase.price_overrides
    for name in (f"{key}/{place.region}", key):
        if name in overrides:
            source = f"user (purchase.price_overrides {name})"
            return Price(usd=overrides[name], source=source, basis=Basis.USER, as_of=today)
    return None


def _listed(place: Place, request: PlanRequest, catalog: Catalog) -> Price | Unpriced:  # noqa: PLR0911 - one case an option
    """The catalog's price for a place."""
    name, region, option = place.instance_type, place.region, place.option
    if option is PurchaseOption.ON_DEMAND:
        return catalog.on_demand(name, region)
    if option is PurchaseOption.SPOT:
        rows = catalog.spot(name, region)
        if place.az_id in rows:
            return rows[place.az_id]
        where = place.az_id or region
        return Unpriced(reason=f"no spot price of {name} in {where} is known")
    if option is PurchaseOption.CAPACITY_BLOCK:
        return catalog.capacity_block(name, region)
    payment, term = request.purchase.payment, place.term_years or 1
    if option is PurchaseOption.SAVINGS_PLAN:
        return catalog.savings_plan(name, region, place.plan_kind or PlanKind.COMPUTE, term, payment)
    if option is PurchaseOption.RESERVED:
        return catalog.reserved(name, region, "standard", term, payment)
    return Unpriced(reason=f"no {option.value} price of {name} is known")


def _is_pinned(place: Place, request: PlanRequest) -> bool:
    """Whether the user asked for spot at this very place, market or not."""
    target = request.target
    return (
        request.purchase.option == (PurchaseOption.SPOT,)
        and target.instance_type == (place.instance_type,)
        and target.region == (place.region,)
    )


def _no_market(price: Price) -> str:
    """Why a spot row is no offer."""
    if price.market is Market.FLOOR:
        return f"no spot market: ${price.usd:f} is the floor of 10 % of on demand"
    return f"no spot market: ${price.usd:f} equals on demand"


def _discounted(price: Price | Unpriced, request: PlanRequest) -> Price | Unpriced:
    """The price less the plan's discount; the note says so."""
    percent = request.purchase.discount_percent
    if isinstance(price, Unpriced) or percent == 0:
        return price
    factor = Decimal(1) - Decimal(str(percent)) / 100
    note = f"${price.usd:f} less {percent:g} % (purchase.discount_percent)"
    return replace(price, usd=price.usd * factor, note=f"{price.note}; {note}" if price.note else note)
