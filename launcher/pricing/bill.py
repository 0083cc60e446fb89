"""The rest of the bill: everything a training cluster on ParallelCluster costs beside its compute."""

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

from launcher.catalog.bill_items import BillItem
from launcher.catalog.load import Catalog
from launcher.model.enums import CheckpointMode
from launcher.model.money import Assumption, CostComponent, Price, Unpriced
from launcher.model.plan import Place
from launcher.model.request import PlanRequest
from launcher.model.sizing import COMPUTE_ROOT_GIB, HEAD_ROOT_GIB, LOGIN_NODE, head_node
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
    125: BillItem.FSX_LUSTRE_PERSISTENT_125,
    250: BillItem.FSX_LUSTRE_PERSISTENT_250,
    500: BillItem.FSX_LUSTRE_PERSISTENT_500,
    1000: BillItem.FSX_LUSTRE_PERSISTENT_1000,
}
GIB_PER_GB = 1.073741824


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSize:
    """What the rest of the bill depends on: hours, saves, and how much each save holds."""

    hours: float
    checkpoint_interval_s: float | None


def rest_of_bill(
    place: Place, request: PlanRequest, work: Work, size: JobSize, catalog: Catalog
) -> tuple[CostComponent, ...]:
    """The components beside the compute, in the order of their groups."""
    hours = size.hours + CLUSTER_OVERHEAD_H
    lines = _Lines(region=place.region, catalog=catalog)
    return (
        *_machines(lines, place, request, hours),
        *_storage(lines, place, request, work, size),
        *_network(lines, place, request, hours),
        *_logs(lines, place, hours),
    )


def bill_assumptions(request: PlanRequest) -> tuple[Assumption, ...]:
    """What the rest of the bill rests on, for the quote."""
    lines = [
        _assumed("cluster stands before and after the job", f"{CLUSTER_OVERHEAD_H:g}", "h"),
        _assumed("data through the NAT", f"{NAT_GB_PER_NODE:g}", "GB a node"),
        _assumed("logs", f"{LOG_GB_PER_NODE_HOUR:g}", "GB a node-hour"),
    ]
    if request.checkpoint.mode is not CheckpointMode.NONE:
        lines.append(_assumed(f"the {request.checkpoint.keep} kept checkpoints stay for", f"{KEPT_MONTHS:g}", "month"))
    return tuple(lines)


def _assumed(name: str, value: str, unit: str) -> Assumption:
    """A line that rests on no source."""
    return Assumption(name=name, value=value, unit=unit, source="assumption, not measured")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lines:
    """Makes the lines of one region."""

    region: str
    catalog: Catalog

    def item(self, name: str, group: str, item: BillItem, unit: str, quantity: float) -> CostComponent:
        """A line priced by the catalog's rest of the bill."""
        return component(name, group, unit, quantity, self.catalog.bill_item(item, self.region))

    def machine(self, name: str, instance_type: str, hours: float) -> CostComponent:
        """A line of machine hours on demand."""
        price = self.catalog.on_demand(instance_type, self.region)
        return component(f"{name} {instance_type}", "other", "instance-hour", hours, price)


def component(name: str, group: str, unit: str, quantity: float, price: Price | Unpriced) -> CostComponent:
    """A line of the bill: quantity times price, tier by tier, or unpriced with the reason. A quantity of 0 costs 0."""
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
        usd=tiered(price, quantity),
        unpriced=None,
        source=price.source,
        basis=price.basis,
        as_of=price.as_of,
    )


def tiered(price: Price, quantity: float) -> Decimal:
    """The cost of a quantity, each tier at its own price.

    >>> from datetime import date
    >>> from launcher.model.enums import Basis
    >>> tiers = (
    ...     Tier(start=Decimal(0), end=Decimal(10), usd=Decimal(2)),
    ...     Tier(start=Decimal(10), end=None, usd=Decimal(1)),
    ... )
    >>> price = Price(usd=Decimal(2), source="x", basis=Basis.LISTED, as_of=date(2026, 1, 1), tiers=tiers)
    >>> tiered(price, 15.0)
    Decimal('25.0')
    """
    amount = Decimal(repr(float(quantity)))
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
    hours = size.hours + CLUSTER_OVERHEAD_H
    gib = HEAD_ROOT_GIB * (1 + request.storage.login_nodes) * hours + COMPUTE_ROOT_GIB * place.nodes * size.hours
    yield lines.item("EBS gp3 root volumes", "storage", BillItem.EBS_GP3_STORAGE, "GB-month", gib / HOURS_PER_MONTH)
    lustre = request.storage.lustre_gib
    if lustre:
        item = FSX[request.storage.lustre_mb_s_per_tib]
        name = f"FSx for Lustre {lustre} GiB"
        yield lines.item(name, "storage", item, "GB-month", lustre * hours / HOURS_PER_MONTH)
    gigabytes = work.checkpoint_gb
    if request.checkpoint.mode is CheckpointMode.NONE or gigabytes is None:
        return
    stored = gigabytes * request.checkpoint.keep
    months = KEPT_MONTHS + size.hours / HOURS_PER_MONTH
    yield lines.item("S3 checkpoints", "storage", BillItem.S3_STANDARD_STORAGE, "GB-month", stored * months)
    if size.checkpoint_interval_s:
        saves = size.hours * 3600 / size.checkpoint_interval_s
        puts = saves * max(2.0, gigabytes * 1000 / PART_MB) / 1000
        yield lines.item("S3 uploads", "storage", BillItem.S3_PUT_REQUESTS, "1000 requests", puts)


def _network(lines: _Lines, place: Place, request: PlanRequest, hours: float) -> Iterator[CostComponent]:
    """The NAT gateway of a new network, and training data that come from another region."""
    if request.network.vpc_id is None:
        yield lines.item("NAT gateway", "network", BillItem.VPC_NAT_GATEWAY, "hour", hours)
        yield lines.item("NAT data", "network", BillItem.VPC_NAT_GATEWAY_DATA, "GB", NAT_GB_PER_NODE * place.nodes)
        yield lines.item("public IPv4 address of the NAT", "network", BillItem.VPC_PUBLIC_IPV4, "hour", hours)
    data = request.workload.train.data if request.workload.train else None
    if data and data.gib and data.region and data.region != place.region:
        price = lines.catalog.bill_item(BillItem.TRANSFER_INTER_REGION, data.region)
        yield component(f"training data from {data.region}", "network", "GB", data.gib * GIB_PER_GB, price)


def _logs(lines: _Lines, place: Place, hours: float) -> Iterator[CostComponent]:
    """Logs of the cluster, the jobs and the network."""
    gigabytes = LOG_GB_PER_NODE_HOUR * (place.nodes + 1) * hours
    yield lines.item("CloudWatch logs", "other", BillItem.CLOUDWATCH_LOGS_INGESTION, "GB", gigabytes)
