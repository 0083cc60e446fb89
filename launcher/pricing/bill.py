"""The rest of the bill: everything a training cluster on ParallelCluster costs beside its compute."""

from collections.abc import Iterator
from decimal import Decimal
from typing import NamedTuple

from launcher.catalog.load import Catalog
from launcher.model.enums import CheckpointMode
from launcher.model.money import Assumption, CostComponent, Price, Unpriced
from launcher.model.plan import Place
from launcher.model.request import PlanRequest
from launcher.model.sizing import COMPUTE_ROOT_GIB, HEAD_ROOT_GIB, LOG_RETENTION_DAYS, LOGIN_NODE, head_node
from launcher.model.work import Work

HOURS_PER_MONTH = 730.0
"""AWS's own month: 8,760 hours over 12."""
CLUSTER_OVERHEAD_H = 0.5
"""Hours that the head node and the network stand before and after the job: an assumption, not measured."""
KEPT_MONTHS = 1.0
"""Months that the kept checkpoints are priced for; they cost on until they are deleted."""
PART_MB = 64.0
"""Megabytes of one part of a multipart upload, each of which is one PUT."""
NAT_GB_PER_NODE = 20.0
"""Packages and a container image fetched through the NAT by each node: an assumption."""
LOG_GB_PER_NODE_HOUR = 0.05
"""Cluster, job and flow logs of one node: an assumption."""
FSX = {
    125: "fsx.lustre-persistent-125",
    250: "fsx.lustre-persistent-250",
    500: "fsx.lustre-persistent-500",
    1000: "fsx.lustre-persistent-1000",
}
CENT_FRACTION = Decimal("0.0001")
"""Lines are rounded to the hundredth of a cent, so that they add up to the total exactly."""
GB_PER_GIB = 1.073741824
MOST = 1e15
"""Quantities are cut off here; nothing that large is for sale."""


class JobSize(NamedTuple):
    """What the rest of the bill depends on: hours, saves, and how much each save holds."""

    hours: float
    checkpoint_interval_s: float | None


def rest_of_bill(
    place: Place, request: PlanRequest, work: Work, size: JobSize, catalog: Catalog
) -> tuple[CostComponent, ...]:
    """The components beside the compute, in the order of their groups.

    A job that goes to a cluster that exists pays for its own disks, checkpoints, data and logs alone.
    """
    lines = _Lines(region=place.region, catalog=catalog, months=max(1.0, size.hours / HOURS_PER_MONTH))
    hours = size.hours + CLUSTER_OVERHEAD_H
    own = request.target.cluster is None
    return (
        *(_machines(lines, place, request, hours) if own else ()),
        *_storage(lines, place, request, work, size),
        *(_network(lines, place, request, hours) if own else ()),
        *_transfer(lines, request),
        *_logs(lines, place, hours),
    )


def transfer_usd(region: str, request: PlanRequest, catalog: Catalog) -> float:
    """Dollars to bring the training data to a region; 0 where there is nothing to bring, or no price for it."""
    lines = _Lines(region=region, catalog=catalog, months=1.0)
    return sum(float(each.usd) for each in _transfer(lines, request) if each.usd is not None)


def checkpoints_and_data_usd(region: str, request: PlanRequest, work: Work, hours: float, catalog: Catalog) -> Decimal:
    """Dollars of the checkpoints and the training data of a job, without any machine."""
    lines = _Lines(region=region, catalog=catalog, months=max(1.0, hours / HOURS_PER_MONTH))
    size = JobSize(hours=hours, checkpoint_interval_s=work.checkpoint_interval_s)
    found = (*_checkpoints(lines, request, work, size), *_transfer(lines, request))
    return sum((each.usd for each in found if each.usd is not None), Decimal(0))


def bill_assumptions(request: PlanRequest) -> tuple[Assumption, ...]:
    """What the rest of the bill rests on, for the quote."""
    lines = [_assumed("logs", f"{LOG_GB_PER_NODE_HOUR:g}", "GB a node-hour")]
    if request.target.cluster is None:
        lines.append(_assumed("cluster stands before and after the job", f"{CLUSTER_OVERHEAD_H:g}", "h"))
        if request.network.vpc_id is None:
            lines.append(_assumed("data through the NAT", f"{NAT_GB_PER_NODE:g}", "GB a node"))
    if request.checkpoint.mode is not CheckpointMode.NONE:
        lines.append(_assumed(f"the {request.checkpoint.keep} kept checkpoints stay for", f"{KEPT_MONTHS:g}", "month"))
    return tuple(lines)


def _assumed(name: str, value: str, unit: str) -> Assumption:
    """A line that rests on no source."""
    return Assumption(name=name, value=value, unit=unit, source="assumption, not measured")


class _Lines(NamedTuple):
    """Makes the lines of one region, for a job that lasts `months`, at least one."""

    region: str
    catalog: Catalog
    months: float

    def item(self, name: str, group: str, item: str, unit: str, quantity: float) -> CostComponent:
        """A line priced by the catalog's rest of the bill; `item` is one of catalog.bill_items.BillItem."""
        return component(name, group, unit, quantity, self.catalog.bill_item(item, self.region), months=self.months)

    def machine(self, name: str, instance_type: str, hours: float) -> CostComponent:
        """A line of machine hours on demand."""
        price = self.catalog.on_demand(instance_type, self.region)
        return component(f"{name} {instance_type}", "other", "instance-hour", hours, price)


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
        )
    usd = tiered(price, quantity / months) * Decimal(repr(months)) if price.tiers else price.usd * _exact(quantity)
    return CostComponent(
        name=name,
        group=group,
        unit=unit,
        quantity=quantity,
        unit_price_usd=price.usd,
        usd=usd.quantize(CENT_FRACTION),
        unpriced=None,
        source=price.source,
        basis=price.basis,
        as_of=price.as_of,
    )


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


def _machines(lines: _Lines, place: Place, request: PlanRequest, hours: float) -> Iterator[CostComponent]:
    """Head node and login nodes, with their disks."""
    yield lines.machine("head node", head_node(place.nodes, request.storage.head_node), hours)
    login = request.storage.login_nodes
    if login:
        yield lines.machine(f"{login} login node{'s' if login > 1 else ''}", LOGIN_NODE, hours * login)


def _storage(lines: _Lines, place: Place, request: PlanRequest, work: Work, size: JobSize) -> Iterator[CostComponent]:
    """Disks, the file system and the checkpoint store."""
    own = request.target.cluster is None
    hours = size.hours + CLUSTER_OVERHEAD_H
    gib = COMPUTE_ROOT_GIB * place.nodes * size.hours
    if own:
        gib += HEAD_ROOT_GIB * (1 + request.storage.login_nodes) * hours
    yield lines.item("EBS gp3 root volumes", "storage", "ebs.gp3-storage", "GB-month", gib / HOURS_PER_MONTH)
    lustre = request.storage.lustre_gib
    if lustre and own:
        item = FSX[request.storage.lustre_mb_s_per_tib]
        name = f"FSx for Lustre {lustre} GiB"
        yield lines.item(name, "storage", item, "GB-month", lustre * hours / HOURS_PER_MONTH)
    yield from _checkpoints(lines, request, work, size)


def _checkpoints(lines: _Lines, request: PlanRequest, work: Work, size: JobSize) -> Iterator[CostComponent]:
    """The checkpoint store: what is kept in it, and the requests that put it there."""
    gigabytes = work.checkpoint_gb
    if request.checkpoint.mode is CheckpointMode.NONE or gigabytes is None:
        return
    stored = gigabytes * request.checkpoint.keep
    months = KEPT_MONTHS + size.hours / HOURS_PER_MONTH
    yield lines.item("S3 checkpoints", "storage", "s3.standard-storage", "GB-month", stored * months)
    if size.checkpoint_interval_s:
        saves = size.hours * 3600 / size.checkpoint_interval_s
        puts = saves * max(2.0, gigabytes * 1000 / PART_MB) / 1000
        yield lines.item("S3 uploads", "storage", "s3.put-requests", "1000 requests", puts)


def _network(lines: _Lines, place: Place, request: PlanRequest, hours: float) -> Iterator[CostComponent]:
    """The NAT gateway of a new network."""
    if request.network.vpc_id is None:
        yield lines.item("NAT gateway", "network", "vpc.nat-gateway", "hour", hours)
        yield lines.item("NAT data", "network", "vpc.nat-gateway-data", "GB", NAT_GB_PER_NODE * place.nodes)
        yield lines.item("public IPv4 address of the NAT", "network", "vpc.public-ipv4", "hour", hours)


def _transfer(lines: _Lines, request: PlanRequest) -> Iterator[CostComponent]:
    """Training data that come from another region, at the price of that pair of regions."""
    data = request.workload.train.data if request.workload.train else None
    if data and data.gib and data.region and data.region != lines.region:
        price = lines.catalog.transfer(data.region, lines.region)
        yield component(f"training data from {data.region}", "network", "GB", data.gib * GB_PER_GIB, price)


def _logs(lines: _Lines, place: Place, hours: float) -> Iterator[CostComponent]:
    """Logs of the cluster, the jobs and the network, and their keeping."""
    gigabytes = LOG_GB_PER_NODE_HOUR * (place.nodes + 1) * hours
    yield lines.item("CloudWatch logs", "other", "cloudwatch.logs-ingestion", "GB", gigabytes)
    kept = gigabytes * LOG_RETENTION_DAYS * 24 / HOURS_PER_MONTH
    yield lines.item("CloudWatch logs kept", "other", "cloudwatch.logs-storage", "GB-month", kept)
