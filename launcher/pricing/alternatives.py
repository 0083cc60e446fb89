"""Other hardware for the job, priced next to the candidates; Slipway can deploy everything except UltraServers.

Covers SageMaker training jobs and HyperPod at their `ml.` rates, managed spot as far as AWS publishes numbers, and
instances that are sold as UltraServers or quarters of an UltraServer.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from decimal import Decimal

from launcher.catalog import selector
from launcher.model.enums import PurchaseOption, TargetKind
from launcher.model.instance_type import InstanceType
from launcher.model.money import Price, Range, Unpriced, UsdRange
from launcher.model.record import record
from launcher.model.target import target_of, training_targets
from launcher.model.work import Work
from launcher.planning.learned import BOOT_H
from launcher.planning.work import Estimator
from launcher.pricing.bill import checkpoints_and_data_usd
from launcher.pricing.bill_lines import CENT_FRACTION, usd_range
from launcher.pricing.blocks import HOURS_A_DAY, block_days
from launcher.pricing.context import PricingContext
from launcher.pricing.derived_spot import MANAGED_SPOT as MANAGED_SPOT_SHARES
from launcher.pricing.derived_spot import managed_price

TRAINING_JOB, MANAGED_SPOT, HYPERPOD, ULTRASERVER = (
    "sagemaker-training-job",
    "sagemaker-managed-spot",
    "hyperpod",
    "ultraserver",
)
NODE_COUNTS = (1, 2, 4, 8, 16, 32, 64)
SAGEMAKER = {TRAINING_JOB: "training", HYPERPOD: "cluster"}
"""The SageMaker component under which each service bills an instance."""


def deploying(service: str) -> TargetKind | None:
    """The target that deploys a service; None if no target does.

    >>> [str(deploying(each)) for each in (HYPERPOD, TRAINING_JOB, MANAGED_SPOT, ULTRASERVER)]
    ['hyperpod-slurm', 'sagemaker-training', 'sagemaker-training', 'None']
    """
    billed = SAGEMAKER.get(TRAINING_JOB if service == MANAGED_SPOT else service)
    kinds = (kind for kind in training_targets() if billed is not None and target_of(kind).sagemaker == billed)
    return next(kinds, None)


@record
class Alternative:
    """An alternative at its cheapest size and place: `usd` is compute, checkpoints and data, None without a price."""

    service: str
    instance_type: str
    accelerator: str
    nodes: int
    region: str
    option: PurchaseOption
    hours: Range
    usd: UsdRange | None
    price: Price | Unpriced


def alternatives(
    types: Iterable[InstanceType], estimator: Estimator, context: PricingContext
) -> tuple[Alternative, ...]:
    """The alternatives of a request: the cheapest of each service, unpriced ones last.

    Args:
        types: the types to try; those that Slipway cannot deploy are UltraServers and quarters of them.
        estimator: estimates the work for a number of instances of a type.
        context: the request and the prices.
    """
    known = tuple(types)
    managed = tuple(instance_type for instance_type in known if instance_type.ml and instance_type.targets)
    options: list[Alternative] = []
    for service in (TRAINING_JOB, HYPERPOD):
        best = _managed(service, managed, estimator, context)
        if best is not None:
            options.append(best)
    if options and options[0].service == TRAINING_JOB:
        options.append(_managed_spot(options[0], estimator, context))
    whole: dict[str | None, list[Alternative]] = {}
    for instance_type in known:
        if instance_type.block_counts and not instance_type.targets:
            whole.setdefault(instance_type.accelerator, []).extend(_ultraserver(instance_type, estimator, context))
    options += [best for rows in whole.values() if (best := _cheapest(rows)) is not None]
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


def _managed(
    service: str, types: tuple[InstanceType, ...], estimator: Estimator, context: PricingContext
) -> Alternative | None:
    """The cheapest type, region and count at an `ml.` rate, computed in floats; None without any rate."""
    best: tuple[float, float, str, Work] | None = None
    catalog, component = context.catalog, SAGEMAKER[service]
    for facts in types:
        key = selector.Key(selector.SAGEMAKER, f"ml.{facts.name}", "", detail=component)
        rows = ((catalog.selector.row(key.at(region_name)), region_name) for region_name in _regions(context, facts))
        priced = [(float(row.usd), region) for row, region in rows if row is not None]
        if not priced:
            continue
        rate, region = min(priced)
        for nodes in _node_counts(context) if facts.efa_interfaces else _node_counts(context)[:1]:
            work = estimator.work(facts.name, nodes)
            usd = rate * nodes * (work.hours.mid + BOOT_H)
            if work.misfit is None and not _late(work, context) and (best is None or (usd, work.hours.mid) < best[:2]):
                best = (usd, work.hours.mid, region, work)
    if best is None:
        return None
    _, _, region, work = best
    name = f"ml.{work.instance_type}"
    price = catalog.sagemaker(name, region, component)
    return _alternative(service, name, region, option=PurchaseOption.ON_DEMAND, work=work, price=price, context=context)


def _late(work: Work, context: PricingContext) -> bool:
    deadline_h = context.request.purchase.deadline_h
    return deadline_h is not None and work.hours.mid > deadline_h


def _managed_spot(job: Alternative, estimator: Estimator, context: PricingContext) -> Alternative:
    """The same training job on managed spot, whose rate is not published: a range up to on demand."""
    if not isinstance(job.price, Price):
        return replace(job, service=MANAGED_SPOT, option=PurchaseOption.SPOT)
    work = estimator.work(job.instance_type.removeprefix("ml."), job.nodes)
    rates = [managed_price(job.price, share) for share in MANAGED_SPOT_SHARES]
    ranges = [_usd(work, rate, PurchaseOption.SPOT, context, job.region) for rate in rates]
    usd = None
    if all(ranges):
        low, mid, high = (range_ for range_ in ranges if range_ is not None)
        usd = UsdRange(low=low.low, mid=mid.mid, high=high.high)
    return replace(job, service=MANAGED_SPOT, option=PurchaseOption.SPOT, usd=usd, price=rates[1])


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
