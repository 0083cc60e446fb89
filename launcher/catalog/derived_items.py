"""Prices of bill items in regions for which no price is known, derived from the regions that have one.

A line without a price would make a total look cheap, so every line gets a price: the price of another region times the
ratio of the two regions in another item of the same service, where one is known; else the highest price known.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from decimal import Decimal

from launcher.model.enums import Basis
from launcher.model.money import Price

ANCHOR = "us-east-1"
"""The region whose prices the ratios are taken of: it has a price of every item that any region has."""
DIGITS = Decimal("1e-8")


def derive_price(prices: Mapping[str, Price], siblings: Iterable[Mapping[str, Price]], region: str) -> Price | None:
    """The price of an item in a region without one; None if no region has a price.

    Args:
        prices: the item's prices by region.
        siblings: the prices by region of the other items of its service.
        region: the region without a price.
    """
    base = prices.get(ANCHOR)
    ratio = max((ratio for known in siblings if (ratio := _ratio(known, region)) is not None), default=None)
    if base is not None and ratio is not None:
        note = f"{ANCHOR}'s price times {ratio:.3f}, the service's ratio between the regions"
        return _mark_derived(base, ratio, note)
    where, dearest = max(prices.items(), key=lambda item: item[1].usd, default=(None, None))
    return None if dearest is None else _mark_derived(dearest, Decimal(1), f"the highest price known, of {where}")


def _ratio(known: Mapping[str, Price], region: str) -> Decimal | None:
    """A region's price of an item over the anchor's; None without a listed price of both, or with tiers."""
    here, there = known.get(region), known.get(ANCHOR)
    if here is None or there is None or not there.usd or here.tiers or there.tiers:
        return None
    return here.usd / there.usd


def _mark_derived(price: Price, ratio: Decimal, note: str) -> Price:
    return replace(
        price,
        usd=_times(price.usd, ratio),
        basis=Basis.DERIVED,
        note=f"{note}; {price.note}" if price.note else note,
        tiers=tuple(replace(tier, usd=_times(tier.usd, ratio)) for tier in price.tiers),
    )


def _times(usd: Decimal, ratio: Decimal) -> Decimal:
    return usd if ratio == 1 else (usd * ratio).quantize(DIGITS).normalize()
