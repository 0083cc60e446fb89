"""A line of the bill: how its quantity grows with the job, and what that comes to, tier by tier."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from decimal import Decimal
from typing import NamedTuple

from launcher.catalog.load import Catalog
from launcher.model.calendar import HOURS_PER_MONTH
from launcher.model.enums import Basis
from launcher.model.money import CostComponent, Price, Unpriced

CLUSTER_OVERHEAD_H = 0.5
"""Hours that the head node and the network run before and after the job: an assumption, not measured."""
FREE_ZONE_H = 12.0
"""A DNS zone that is deleted within this time is not billed; any other pays whole months (Route 53 developer guide)."""
CENT_FRACTION = Decimal("0.0001")
"""Lines are rounded to the hundredth of a cent, so that they add up to the total exactly."""
MOST = 1e15
"""Quantities are cut off here; nothing that large is for sale."""
_STRENGTH = (Basis.UNVERIFIED, Basis.MEMORY, Basis.DERIVED, Basis.LISTED, Basis.USER)


class JobSize(NamedTuple):
    """What the rest of the bill depends on: hours of the job, and seconds between its checkpoints."""

    hours: float
    checkpoint_interval_s: float | None

    @property
    def saves(self) -> float:
        """Checkpoints that are written."""
        return self.hours * 3600 / self.checkpoint_interval_s if self.checkpoint_interval_s else 0.0

    @property
    def months(self) -> float:
        """Months over which quantities come in, at least one."""
        return max(1.0, self.hours / HOURS_PER_MONTH)


class Line(NamedTuple):
    """A line whose quantity is a sum: so much once, an hour of the job, and a checkpoint past the first `saves_free`.

    Of `zones` the quantity is whole months, however many hours of them were begun.
    """

    name: str
    group: str
    unit: str
    price: Price | Unpriced
    once: float = 0.0
    an_hour: float = 0.0
    a_save: float = 0.0
    saves_free: int = 0
    zones: int = 0

    def quantity(self, size: JobSize) -> float:
        """What there is of it in a job of a size."""
        if self.zones:
            up_h = size.hours + CLUSTER_OVERHEAD_H
            return float(self.zones * math.ceil(up_h / HOURS_PER_MONTH)) if up_h > FREE_ZONE_H else 0.0
        found = self.once + self.an_hour * size.hours
        if self.a_save:
            found += self.a_save * max(0.0, size.saves - self.saves_free)
        return min(found, MOST)

    def while_up(self, count: float) -> "Line":
        """The line of something of which `count` are billed as long as the cluster runs, quantities being hours."""
        return self._replace(once=count * CLUSTER_OVERHEAD_H, an_hour=count)

    def of(self, quantity: float) -> CostComponent:
        """The line of so much of it, for what does not grow with a job."""
        return component(self.name, self.group, self.unit, quantity, self.price)


class Prices(NamedTuple):
    """The rest of the bill's prices in one region."""

    region: str
    catalog: Catalog

    def line(self, name: str, group: str, item: str, unit: str) -> Line:
        """A line with its price and no quantity yet; `item` is one of prices/bill_items.csv."""
        return Line(name, group, unit, self.catalog.bill_item(item, self.region))

    def past_allowance(self, item: str) -> Price | Unpriced:
        """The price of an item beyond what an account has free: other clusters and services use that up too."""
        price = self.catalog.bill_item(item, self.region)
        if isinstance(price, Unpriced):
            return replace(price, elsewhere=None if price.elsewhere is None else _flat(price.elsewhere))
        return _flat(price)


def _flat(price: Price) -> Price:
    """A price without tiers."""
    return Price(usd=price.usd, source=price.source, basis=price.basis, as_of=price.as_of, note=price.note)


def combined(parts: Iterable[tuple[float, Price | Unpriced]]) -> Price | Unpriced:
    """The price of something that is made of so much of each part: the weakest basis, the oldest date.

    Unpriced with the first part that is.
    """
    known, priced = tuple(parts), []
    for amount, price in known:
        if isinstance(price, Unpriced):
            return price if price.elsewhere is None else replace(price, elsewhere=_sum(_elsewhere(known)))
        priced.append((amount, price))
    return _sum(priced)


def _elsewhere(parts: Iterable[tuple[float, Price | Unpriced]]) -> Iterator[tuple[float, Price]]:
    """The parts at their own prices, or at those of other regions; what has none at all is left out."""
    for amount, price in parts:
        found = price.elsewhere if isinstance(price, Unpriced) else price
        if found is not None:
            yield amount, found


def _sum(parts: Iterable[tuple[float, Price]]) -> Price:
    """The price of so much of each part."""
    usd, priced = Decimal(0), []
    for amount, price in parts:
        usd += price.usd * _exact(amount)
        priced.append(price)
    return Price(
        usd=usd.quantize(CENT_FRACTION),
        source="; ".join(dict.fromkeys(each.source for each in priced)),
        basis=min((each.basis for each in priced), key=_STRENGTH.index),
        as_of=min(each.as_of for each in priced),
    )


def components(lines: Iterable[Line], size: JobSize) -> tuple[CostComponent, ...]:
    """The lines of a job of a size; those of which there is nothing are left out."""
    quantities = ((each, each.quantity(size)) for each in lines)
    return tuple(
        component(each.name, each.group, each.unit, quantity, each.price, months=size.months)
        for each, quantity in quantities
        if quantity
    )


def total_usd(lines: Iterable[Line], size: JobSize) -> Decimal:
    """What the priced ones among the lines come to, to the digit what their components sum up to."""
    months, found = size.months, Decimal(0)
    for each in lines:
        if isinstance(each.price, Price):
            found += line_usd(each.price, each.quantity(size), months)
    return found


def missing_usd(lines: Iterable[Line], size: JobSize) -> Decimal:
    """What the unpriced ones among the lines come to at the dearest prices that other regions have."""
    months = size.months
    known = (
        (each.price.elsewhere, each.quantity(size))
        for each in lines
        if isinstance(each.price, Unpriced) and each.price.elsewhere is not None
    )
    return sum((line_usd(price, quantity, months) for price, quantity in known), Decimal(0))


def component(
    name: str, group: str, unit: str, quantity: float, price: Price | Unpriced, *, months: float = 1.0
) -> CostComponent:
    """A line of the bill: quantity times price, tier by tier, or unpriced with the reason. A quantity of 0 costs 0.

    Tiers hold for the quantity of one month, so a quantity that comes in over `months` starts in the first each time.
    """
    quantity = min(float(quantity), MOST)
    if isinstance(price, Unpriced):
        return CostComponent(
            name=name,
            group=group,
            unit=unit,
            quantity=quantity,
            unit_price_usd=None,
            usd=None,
            unpriced=price.reason,
            source="",
            basis=None,
            as_of=None,
            elsewhere_usd=None if price.elsewhere is None else line_usd(price.elsewhere, quantity, months),
        )
    return CostComponent(
        name=name,
        group=group,
        unit=unit,
        quantity=quantity,
        unit_price_usd=price.usd,
        usd=line_usd(price, quantity, months),
        unpriced=None,
        source=price.source,
        basis=price.basis,
        as_of=price.as_of,
    )


def line_usd(price: Price, quantity: float, months: float = 1.0) -> Decimal:
    """What a quantity costs that comes in over so many months."""
    if not price.tiers:
        return (price.usd * _exact(quantity)).quantize(CENT_FRACTION)
    return (tiered(price, quantity / months) * _exact(months)).quantize(CENT_FRACTION)


def _exact(quantity: float) -> Decimal:
    """A quantity as the decimal number that it is written as."""
    return Decimal(repr(quantity))


def tiered(price: Price, quantity: float) -> Decimal:
    """The cost of a quantity, each tier at its own price.

    >>> from datetime import date
    >>> from launcher.model.enums import Basis
    >>> from launcher.model.money import Tier
    >>> tiers = (
    ...     Tier(start=Decimal(0), end=Decimal(10), usd=Decimal(2)),
    ...     Tier(start=Decimal(10), end=None, usd=Decimal(1)),
    ... )
    >>> price = Price(usd=Decimal(2), source="x", basis=Basis.LISTED, as_of=date(2026, 1, 1), tiers=tiers)
    >>> tiered(price, 15.0)
    Decimal('25.0')
    """
    amount = _exact(float(quantity))
    if not price.tiers:
        return price.usd * amount
    total = Decimal(0)
    for tier in price.tiers:
        top = amount if tier.end is None else min(amount, tier.end)
        if top > tier.start:
            total += (top - tier.start) * tier.usd
    return total
