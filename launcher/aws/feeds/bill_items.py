"""Bill items from products of the Price List: quantity tiers of the usage types in the catalog."""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

from launcher.aws.calls import RefusedPriceError, dollars
from launcher.aws.price_list import Product, holding
from launcher.catalog.fetched_prices import FetchedItem, FetchedPrices, Unmatched
from launcher.catalog.usage_types import UsageType

ENDLESS = "Inf"
NONE = "no such product"
Bands = tuple[FetchedItem, ...]


def bill_answer(
    products: Iterable[Product], known: Collection[UsageType], units: Mapping[str, str], region: str, now: datetime
) -> FetchedPrices:
    """The quantity bands of each item, and the items without a price in the products or with conflicting prices.

    `units`: the catalog's unit by item. Of the terms that have begun by `now`, the newest is valid.
    """
    every = list(products)
    items: list[FetchedItem] = []
    unmatched: list[Unmatched] = []
    for usage in known:
        mine = [product for product in every if usage.matches(product.attributes)]
        try:
            items += _one(mine, usage, units[usage.item], region, now)
        except RefusedPriceError as problem:
            unmatched.append(Unmatched(item=usage.item, region=region, reason=str(problem)))
    return FetchedPrices(
        items=tuple(sorted(items, key=lambda fetched_item: (fetched_item.item, fetched_item.start))),
        unmatched=tuple(unmatched),
    )


def _one(products: Collection[Product], usage: UsageType, unit: str, region: str, now: datetime) -> Bands:
    """The bands that all products of a usage type agree on; products that are free at all quantities are ignored."""
    candidates: dict[Bands, None] = {}
    reason = NONE
    for product in products:
        try:
            bands = _bands(product, usage, unit, region, now)
        except (RefusedPriceError, ArithmeticError) as problem:
            reason = str(problem)
            continue
        if bands:
            candidates[bands] = None
    if not candidates:
        raise RefusedPriceError(reason)
    if usage.dearest:
        return max(candidates, key=lambda bands: bands[0].usd)
    if len(candidates) > 1:
        prices = ", ".join(sorted({f"${bands[0].usd.normalize():f}" for bands in candidates}))
        raise RefusedPriceError(f"{len(candidates)} products that differ, at {prices}")
    return next(iter(candidates))


def _bands(product: Product, usage: UsageType, unit: str, region: str, now: datetime) -> Bands:
    bands = [
        _band(price, usage, unit, region)
        for term in holding(product.terms_of("OnDemand"), now)
        for price in term.get("priceDimensions", {}).values()
        if dollars(price.get("pricePerUnit", {}).get("USD"), free=True) != 0
    ]
    return tuple(sorted(bands, key=lambda fetched_item: fetched_item.start))


def _band(price: Mapping[str, Any], usage: UsageType, unit: str, region: str) -> FetchedItem:
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
        doubt=usage.doubt,
    )
