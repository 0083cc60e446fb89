"""A line of the bill: how its quantity grows with the job, and its cost, tier by tier."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from decimal import Decimal
from operator import sub
from typing import NamedTuple, TypeAlias

from launcher.catalog.load import Catalog
from launcher.model.enums import Basis
from launcher.model.money import CostComponent, Price, Unpriced, UsdRange, sum_usd
from launcher.model.units import HOURS_PER_MONTH
from launcher.planning.registry import has_budget
from launcher.pricing.hyperpod import instance_price

CLUSTER_OVERHEAD_H = 0.5
"""Minimum hours that the head node and the network run before and after the job: an assumption, not measured."""
FREE_ZONE_H = 12.0
"""A DNS zone deleted within this time is free; any other is billed in full months (Route 53 developer guide)."""
CENT_FRACTION = Decimal("0.0001")
"""Lines are rounded to the hundredth of a cent, so that they add up to the total exactly."""
UNITS = 10_000.0
"""Hundredths of a cent in a dollar."""
SURE_UNITS, SURE_ROUNDING = 1e10, 0.499
"""A product of floats below so many hundredths of a cent, and no nearer to a tie, is rounded like that of decimals."""
NOTHING = CENT_FRACTION - CENT_FRACTION
"""The cost of nothing, rounded like a line."""
MAX_AMOUNT = 1e15
"""Quantities are cut off here; nothing that large is for sale."""
Amounts: TypeAlias = tuple[float, float, float, float, float]
"""What the lines of a bill multiply: hours of the job, of the cluster (at least as long as its nodes) and of each node,
checkpoints that are written, lost nodes."""
_STRENGTH = (Basis.UNVERIFIED, Basis.MEMORY, Basis.DERIVED, Basis.LISTED, Basis.USER)


class JobSize(NamedTuple):
    """The inputs of the non-compute lines: hours of the job, seconds between checkpoints, hours around the job.

    `start_and_tail_h` are billed hours of the nodes before and after the job: start-up and idle tail. `losses` counts
    nodes that are lost and replaced during the job.
    """

    hours: float
    checkpoint_interval_s: float | None
    start_and_tail_h: float = 0.0
    losses: float = 0.0

    @property
    def saves(self) -> float:
        """Checkpoints that are written."""
        return self.hours * 3600 / self.checkpoint_interval_s if self.checkpoint_interval_s else 0.0

    @property
    def amounts(self) -> Amounts:
        """What the lines multiply, computed once for all of them."""
        hours, start_and_tail_h = self.hours, self.start_and_tail_h
        return (
            hours,
            hours + max(CLUSTER_OVERHEAD_H, start_and_tail_h),
            hours + start_and_tail_h,
            self.saves,
            self.losses,
        )

    @property
    def months(self) -> float:
        """Months over which quantities accrue, at least one."""
        return max(1.0, self.hours / HOURS_PER_MONTH)


class Line(NamedTuple):
    """A line of the bill. Its quantity is the sum of a fixed part and of rates times hours or checkpoints."""

    name: str
    group: str
    unit: str
    price: Price | Unpriced
    # Fixed.
    once: float = 0.0
    # Per hour of the job.
    an_hour: float = 0.0
    # Per hour that the cluster is up.
    an_hour_up: float = 0.0
    # Per hour that the nodes run.
    a_node_hour: float = 0.0
    # Per checkpoint past the first `saves_free`.
    a_save: float = 0.0
    saves_free: int = 0
    # Hosted zones: their quantity is in months, each begun month counted in full.
    zones: int = 0
    # Per lost node.
    a_loss: float = 0.0
    # The key of a service's fee (`Fee`).
    fee: str = ""

    def quantity(self, amounts: Amounts) -> float:
        """The line's quantity in a job of a size (`JobSize.amounts`)."""
        hours, up_h, nodes_h, saves, losses = amounts
        _, _, _, _, once, an_hour, an_hour_up, a_node_hour, a_save, saves_free, zones, a_loss, _ = self
        if zones:
            return float(zones * math.ceil(up_h / HOURS_PER_MONTH)) if up_h > FREE_ZONE_H else 0.0
        amount = once + an_hour * hours + an_hour_up * up_h + a_node_hour * nodes_h + a_loss * losses
        if a_save and saves > saves_free:
            amount += a_save * (saves - saves_free)
        return min(MAX_AMOUNT, amount)

    def per_job_hour(self, size: JobSize) -> float:
        """The growth of the quantity with one more hour of the job; `zones`, billed in full months, do not grow."""
        saves = (
            3600 / size.checkpoint_interval_s if size.checkpoint_interval_s and size.saves > self.saves_free else 0.0
        )
        lost = self.a_loss * size.losses / size.hours if size.hours else 0.0
        return 0.0 if self.zones else self.an_hour + self.an_hour_up + self.a_node_hour + self.a_save * saves + lost

    def while_up(self, count: float) -> "Line":
        """The line with `count` items, billed as long as the cluster runs; quantities are hours."""
        return self._replace(an_hour_up=count)

    def of(self, quantity: float) -> CostComponent:
        """The bill component of this quantity, for lines that do not grow with a job."""
        return component(self.name, self.group, self.unit, quantity, self.price)


class Prices:
    """The non-compute prices in one region."""

    def __init__(self, region: str, catalog: Catalog) -> None:
        """The prices that a catalog has for a region."""
        self.region, self.catalog = region, catalog

    def item(self, item: str) -> Price | Unpriced:
        """The price of a unit of an item; `item` is a key of prices/bill_items.csv."""
        return self.catalog.bill_item(item, self.region)

    def instance(self, instance_type: str, *, managed: bool) -> Price | Unpriced:
        """The price of an instance-hour of a head, controller or login node; `managed` by SageMaker."""
        if managed:
            return instance_price(self.catalog, instance_type, self.region)
        return self.catalog.instance_price(instance_type, self.region)

    def transfer(self, origin: str) -> Price | Unpriced | None:
        """The price of a GB from another region; None for the region itself."""
        return None if origin == self.region else self.catalog.transfer(origin, self.region)

    @property
    def has_budget(self) -> bool:
        """Whether a stack of the region can have an AWS Budget."""
        return has_budget(self.region)

    def line(self, name: str, group: str, item: str, unit: str) -> Line:
        """A line with its price and no quantity yet; `item` is a key of prices/bill_items.csv."""
        return Line(name, group, unit, self.item(item))

    def past_allowance(self, item: str) -> Price | Unpriced:
        """The price of an item above the account's free tier, because other clusters and services use that tier up."""
        price = self.item(item)
        return price if isinstance(price, Unpriced) or not price.tiers else replace(price, tiers=())


class LowestPrices(Prices):
    """The lowest price of each item in some regions, of any tier: for a lower bound of the lines in all of them.

    An item that a region has no price for has none, and so have the items that not every region bills.
    """

    def __init__(self, regions: Iterable[str], catalog: Catalog) -> None:
        """The lowest prices that a catalog has in some regions."""
        super().__init__("", catalog)
        self._regions = tuple(Prices(region, catalog) for region in regions)
        self._known: dict[tuple[str, bool | None], Price | Unpriced] = {}

    def item(self, item: str) -> Price | Unpriced:
        """The lowest price of a unit of an item."""
        key = (item, None)
        if key not in self._known:
            self._known[key] = _lowest(region.item(item) for region in self._regions)
        return self._known[key]

    def instance(self, instance_type: str, *, managed: bool) -> Price | Unpriced:
        """The lowest price of an instance-hour."""
        key = (instance_type, managed)
        if key not in self._known:
            self._known[key] = _lowest(region.instance(instance_type, managed=managed) for region in self._regions)
        return self._known[key]

    def transfer(self, origin: str) -> Price | Unpriced | None:  # noqa: ARG002 - it costs nothing in its own region
        """None: a region may be the data's own."""
        return None

    @property
    def has_budget(self) -> bool:
        """False: a region may have none."""
        return False


def _lowest(prices: Iterable[Price | Unpriced]) -> Price | Unpriced:
    """The lowest price of any tier, or the first missing one."""
    lowest: tuple[Decimal, Price] | None = None
    for price in prices:
        if isinstance(price, Unpriced):
            return price
        usd = min([tier.usd for tier in price.tiers]) if price.tiers else price.usd
        if lowest is None or usd < lowest[0]:
            lowest = usd, price
    return Unpriced(reason="no region") if lowest is None else replace(lowest[1], usd=lowest[0], tiers=())


def combine_prices(parts: Iterable[tuple[float, Price | Unpriced]]) -> Price | Unpriced:
    """The price of a bundle of parts, each with its amount: the weakest basis, the oldest date.

    Unpriced, with the reason of the first unpriced part, if any part has no price.
    """
    priced = []
    for amount, price in parts:
        if isinstance(price, Unpriced):
            return price
        priced.append((amount, price))
    return sum_price(priced)


def sum_price(parts: Iterable[tuple[float, Price]]) -> Price:
    """The price of a bundle, dollars for the bundle: every source, the weakest basis, the oldest date."""
    usd, priced = Decimal(0), []
    for amount, price in parts:
        usd += price.usd * _exact(amount)
        priced.append(price)
    return Price(
        usd=usd.quantize(CENT_FRACTION),
        source="; ".join(dict.fromkeys(part.source for part in priced)),
        basis=min((part.basis for part in priced), key=_STRENGTH.index),
        as_of=min(part.as_of for part in priced),
    )


def components(lines: Iterable[Line], size: JobSize) -> tuple[CostComponent, ...]:
    """The bill components of a job of a size; lines with quantity 0 are left out."""
    amounts, months = size.amounts, size.months
    quantities = ((line, line.quantity(amounts)) for line in lines)
    return tuple(
        component(line.name, line.group, line.unit, quantity, line.price, months=months)
        for line, quantity in quantities
        if quantity
    )


def total_usd(lines: Iterable[Line], size: JobSize) -> Decimal:
    """The total of the priced lines, equal to the sum of their components to the last digit."""
    amounts, months, usd = size.amounts, size.months, NOTHING
    for line in lines:
        if isinstance(line.price, Price) and (quantity := line.quantity(amounts)):
            usd += _rounded_usd(line.price, quantity, months)
    return usd


def sum_units(units: Sequence[float]) -> Decimal | None:
    """The dollars of lines in hundredths of a cent, each rounded as decimals are; None where floats may differ.

    Decimals take several times as long. A product of floats has an error of a millionth of the last unit at most.

    >>> sum_units([12.4, 0.6]), sum_units([0.5]), sum_units([math.inf])
    (Decimal('0.0013'), None, None)
    """
    # The sum of an endless job is infinite, or no number.
    if not sum(units) < SURE_UNITS:
        return None
    rounded = list(map(round, units))
    apart = max(map(abs, map(sub, units, rounded)), default=0.0)
    return sum(rounded) * CENT_FRACTION if apart < SURE_ROUNDING else None


def usd_range(low: Decimal, mid: Decimal, high: Decimal) -> UsdRange:
    """A total with its range: `mid` is the sum of the lines, and the ends are rounded as lines are."""
    low, high = low.quantize(CENT_FRACTION), high.quantize(CENT_FRACTION)
    return UsdRange(low=min(mid, low), mid=mid, high=max(mid, high))


def compute_usd(components: Iterable[CostComponent]) -> Decimal:
    """Dollars of the instances among the lines of a bill."""
    return sum_usd(component.usd for component in components if component.group == "compute")


def component(
    name: str, group: str, unit: str, quantity: float, price: Price | Unpriced, *, months: float = 1.0
) -> CostComponent:
    """A line of the bill: quantity times price, tier by tier, or unpriced with the reason. A quantity of 0 costs 0.

    Tiers hold for the quantity of one month, so each of the `months` starts in the first tier.
    """
    quantity = min(float(quantity), MAX_AMOUNT)
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
    """The cost of a quantity that accrues evenly over `months`; the quantity is capped at `MAX_AMOUNT`."""
    return _rounded_usd(price, min(quantity, MAX_AMOUNT), months)


def _rounded_usd(price: Price, quantity: float, months: float) -> Decimal:
    if not price.tiers:
        return (price.usd * Decimal(repr(quantity))).quantize(CENT_FRACTION)
    return (tiered_usd(price, quantity / months) * _exact(months)).quantize(CENT_FRACTION)


def _exact(quantity: float) -> Decimal:
    return Decimal(repr(quantity))


def tiered_usd(price: Price, quantity: float) -> Decimal:
    """The cost of a quantity, each tier at its own price.

    >>> from datetime import date
    >>> from launcher.model.enums import Basis
    >>> from launcher.model.money import Tier
    >>> tiers = (
    ...     Tier(start=Decimal(0), end=Decimal(10), usd=Decimal(2)),
    ...     Tier(start=Decimal(10), end=None, usd=Decimal(1)),
    ... )
    >>> price = Price(usd=Decimal(2), source="x", basis=Basis.LISTED, as_of=date(2026, 1, 1), tiers=tiers)
    >>> tiered_usd(price, 15.0)
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
