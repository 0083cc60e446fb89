"""Hardware for the job that Slipway cannot deploy: instances sold as UltraServers or quarters of an UltraServer."""

from collections.abc import Iterable, Iterator
from decimal import Decimal

from launcher.model.enums import PurchaseOption
from launcher.model.instance_type import InstanceType
from launcher.model.money import Price, Unpriced, UsdRange
from launcher.model.work import Work
from launcher.planning.start_up import BOOT_H
from launcher.planning.work import Estimator
from launcher.pricing.bill import checkpoints_and_data_usd
from launcher.pricing.bill_lines import CENT_FRACTION, usd_range
from launcher.pricing.blocks import HOURS_A_DAY, block_days
from launcher.pricing.context import PricingContext
from launcher.pricing.priced import Alternative

ULTRASERVER = "ultraserver"
NODE_COUNTS = (1, 2, 4, 8, 16, 32, 64)


def alternatives(
    types: Iterable[InstanceType], estimator: Estimator, context: PricingContext
) -> tuple[Alternative, ...]:
    """The alternatives of a request: the cheapest of each chip, unpriced ones last.

    Args:
        types: the types to try.
        estimator: estimates the work for a number of instances of a type.
        context: the request and the prices.
    """
    whole: dict[str | None, list[Alternative]] = {}
    for instance_type in types:
        if instance_type.block_counts and not instance_type.targets:
            whole.setdefault(instance_type.accelerator, []).extend(_ultraserver(instance_type, estimator, context))
    options = [best for rows in whole.values() if (best := _cheapest(rows)) is not None]
    return tuple(
        sorted(
            options,
            key=lambda alternative: (alternative.usd is None, alternative.usd.mid if alternative.usd else Decimal(0)),
        )
    )


def _node_counts(context: PricingContext, allowed: tuple[int, ...] = NODE_COUNTS) -> tuple[int, ...]:
    """The node counts to try: the plan's, or all that are sold."""
    nodes = context.request.target.nodes
    if nodes is None:
        return allowed
    return tuple(count for count in sorted({nodes.minimum, *allowed}) if nodes.minimum <= count <= nodes.maximum)


def _regions(context: PricingContext, facts: InstanceType) -> tuple[str, ...]:
    """The regions to try: the plan's, or those that offer the type."""
    return context.request.target.region or context.catalog.commercial(context.catalog.regions_of(facts.name))


def _late(work: Work, context: PricingContext) -> bool:
    deadline_h = context.request.purchase.deadline_h
    return deadline_h is not None and work.hours.mid > deadline_h


def _ultraserver(facts: InstanceType, estimator: Estimator, context: PricingContext) -> Iterator[Alternative]:
    """A Capacity Block type that Slipway cannot deploy, at each size in its cheapest region."""
    prices = [(context.catalog.capacity_block(facts.name, region), region) for region in _regions(context, facts)]
    if not prices:
        return
    price, region = min(prices, key=lambda pair: (isinstance(pair[0], Unpriced), getattr(pair[0], "usd", 0), pair[1]))
    for nodes in _node_counts(context, facts.block_counts):
        work = estimator.work(facts.name, nodes)
        if work.misfit is None and not _late(work, context):
            option = PurchaseOption.CAPACITY_BLOCK
            yield _alternative(ULTRASERVER, facts.name, region, option=option, work=work, price=price, context=context)


def _alternative(
    service: str,
    name: str,
    region: str,
    *,
    option: PurchaseOption,
    work: Work,
    price: Price | Unpriced,
    context: PricingContext,
) -> Alternative:
    usd = None
    if isinstance(price, Price):
        usd = _usd(work, price, option, context, region)
        if usd is None:
            price = Unpriced(reason=f"no offering is long enough for {work.hours.mid:.0f} hours", unverified=price)
    return Alternative(
        service=service,
        instance_type=name,
        accelerator=work.accelerator or "",
        nodes=work.nodes,
        region=region,
        option=option,
        hours=work.hours,
        usd=usd,
        price=price,
    )


def _usd(work: Work, price: Price, option: PurchaseOption, context: PricingContext, region: str) -> UsdRange | None:
    """Dollars of compute, checkpoints and data; None when no offering is long enough."""

    def dollars(hours: float) -> Decimal | None:
        paid: float | None = hours + BOOT_H
        if option is PurchaseOption.CAPACITY_BLOCK:
            days = block_days(hours + BOOT_H)
            paid = None if days is None else days * HOURS_A_DAY
        if paid is None:
            return None
        rest = checkpoints_and_data_usd(region, context.request, work, hours, context.catalog)
        return (price.usd * work.nodes * Decimal(repr(paid)) + rest).quantize(CENT_FRACTION)

    mid = dollars(work.hours.mid)
    if mid is None:
        return None
    return usd_range(dollars(work.hours.low) or mid, mid, dollars(work.hours.high) or mid)


def _cheapest(options: Iterable[Alternative]) -> Alternative | None:
    """The cheapest option, or the shortest if all are unpriced."""
    return min(
        options,
        key=lambda alternative: (
            alternative.usd is None,
            alternative.usd.mid if alternative.usd else Decimal(0),
            alternative.hours.mid * alternative.nodes,
        ),
        default=None,
    )
