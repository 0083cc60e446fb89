"""Bill items out of the Price List's products: quantity bands of the usage types that the catalog knows."""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

from launcher.aws.calls import RefusedPriceError, dollars
from launcher.aws.price_list import Product, holding
from launcher.catalog.bill import UsageType
from launcher.catalog.fetched_prices import FetchedItem

ENDLESS = "Inf"


def fetched_items(
    products: Iterable[Product], known: Collection[UsageType], units: Mapping[str, str], region: str, now: datetime
) -> tuple[FetchedItem, ...]:
    """The quantity bands of each item; of several products of one usage type the dearest price of a band.

    Args:
        products: of one service in one region.
        known: the usage types of that service.
        units: the catalog's unit by item.
        region: where they are.
        now: terms that have begun by then count, of them the newest.
    """
    found: dict[tuple[str, Decimal], FetchedItem] = {}
    for product in products:
        usage = product.attributes.get("usagetype", "")
        for each in known:
            if each.names(usage):
                for fetched in _bands(product, each, units[each.item], region, now):
                    place = (fetched.item, fetched.start)
                    if place not in found or found[place].usd < fetched.usd:
                        found[place] = fetched
    return tuple(found[place] for place in sorted(found))


def _bands(product: Product, usage: UsageType, unit: str, region: str, now: datetime) -> list[FetchedItem]:
    """The bands of one product; none where a price of it is not by the expected unit, or is no price."""
    terms = product.terms_of("OnDemand")
    try:
        return [
            _band(price, usage, unit, region)
            for term in holding(terms, now)
            for price in term.get("priceDimensions", {}).values()
            if not _free(price)
        ]
    except (RefusedPriceError, ArithmeticError):
        return []


def _free(price: Mapping[str, Any]) -> bool:
    """Whether a band is given away: it is left out, so that the next begins where charges do."""
    return dollars(price.get("pricePerUnit", {}).get("USD"), free=True) == 0


def _band(price: Mapping[str, Any], usage: UsageType, unit: str, region: str) -> FetchedItem:
    """One band.

    Raises:
        RefusedPriceError: another unit, another currency, no number.
    """
    if usage.unit and price.get("unit") != usage.unit:
        raise RefusedPriceError(f"the unit is {price.get('unit')}, expected {usage.unit}")
    start, end = Decimal(price.get("beginRange") or 0), price.get("endRange") or ENDLESS
    return FetchedItem(
        item=usage.item,
        region=region,
        unit=unit,
        start=(start / usage.units if start else usage.starts_at).normalize(),
        end=None if end == ENDLESS else (Decimal(end) / usage.units).normalize(),
        usd=dollars(price.get("pricePerUnit", {}).get("USD")) * usage.units,
    )
