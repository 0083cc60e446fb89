"""The non-compute costs of a training cluster on ParallelCluster or HyperPod: all bill lines in addition to compute."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from decimal import Decimal
from typing import NamedTuple

from launcher.catalog.load import Catalog
from launcher.model.budget_stop import stops_at
from launcher.model.enums import Basis, CheckpointMode, Egress, TargetKind
from launcher.model.instance_type import InstanceType
from launcher.model.money import Assumption, Price, Unpriced
from launcher.model.monitoring import ACCESS_LOG_DAYS, SUPERSEDED_DAYS, nat_zones, node_metrics
from launcher.model.plan import Place
from launcher.model.request import PlanRequest
from launcher.model.sizing import (
    COMPUTE_ROOT_GIB,
    HEAD_ROOT_GIB,
    LOG_RETENTION_DAYS,
    LOGIN_NODE,
    LOGIN_ROOT_GIB,
    NAT_INSTANCE,
    NAT_ROOT_GIB,
)
from launcher.model.target import Fee, Target
from launcher.model.units import BILLED, HOURS_PER_MONTH, billed_gb, number_of
from launcher.model.work import Work
from launcher.planning.disks import training_volume_gib
from launcher.planning.fetching import (
    IMAGE_GB,
    LOG_GB_PER_NODE_HOUR,
    NAT_GB_PER_NODE,
    NATS,
    fetched_weights_gb,
    nat_gb_per_node,
    packages_gb,
)
from launcher.planning.nat import ecr_region, egress, interface_endpoints
from launcher.planning.outside_command import outside_command_assumptions
from launcher.pricing.bill_lines import CLUSTER_OVERHEAD_H, JobSize, Line, LowestPrices, Prices, total_usd
from launcher.pricing.bill_monitoring import metrics, monitoring_assumptions, monitoring_lines
from launcher.pricing.hyperpod import volume_assumption
from launcher.pricing.other_costs import OtherCosts
from launcher.targets.registry import target_of

LOGS = "logs"
"""The service whose interface endpoint carries the logs, bypassing the NAT gateway."""
ENDPOINT_DATA = ("interface endpoint data", "network", "vpc.interface-endpoint-data", "GB")
SHARED = "team"
"""The name of a shared network in messages."""
RETENTION_MONTHS = 1.0
"""Months for which retained checkpoints are priced; they cost money until they are deleted."""
SUPERSEDED_MONTHS = (SUPERSEDED_DAYS + 0.5) * 24 / HOURS_PER_MONTH
"""How long a superseded checkpoint stays: S3 expires objects at midnight, half a day later on average."""
PART_MB = 64.0
"""Megabytes of one part of a multipart upload, each of which is one PUT."""
ACCESS_LOG_GB_PER_1000 = 0.0005
"""Size of a thousand lines of the access log: an assumption, half a kilobyte a line."""
FSX = {
    125: "fsx.lustre-persistent-125",
    250: "fsx.lustre-persistent-250",
    500: "fsx.lustre-persistent-500",
    1000: "fsx.lustre-persistent-1000",
}


def network_lines(prices: Prices, request: PlanRequest, target: Target, chosen: Egress | None) -> Iterator[Line]:
    """The network lines that last as long as the cluster: those of the network, and those that the target adds."""
    if chosen is None and target.in_service_network:
        return
    own_costs = not request.network.shared_by
    nats = len(nat_zones(request.network, None)) if chosen in NATS and own_costs else 0
    if nats and chosen is Egress.NAT_GATEWAY:
        yield prices.line("NAT gateway", "network", "vpc.nat-gateway", "hour").while_up(nats)
    elif nats:
        price = prices.instance(NAT_INSTANCE, managed=False)
        yield Line(f"NAT instance {NAT_INSTANCE}", "network", "instance-hour", price).while_up(nats)
        volume = prices.line("volume of the NAT instance", "network", "ebs.gp3-storage", "GB-month")
        yield volume.while_up(nats * NAT_ROOT_GIB / HOURS_PER_MONTH)
    if nats:
        yield prices.line("public IPv4 address of the NAT", "network", "vpc.public-ipv4", "hour").while_up(nats)
    endpoints = len(interface_endpoints(request, target, chosen))
    if endpoints and own_costs:
        name = number_of(endpoints, "interface endpoint")
        yield prices.line(name, "network", "vpc.interface-endpoint", "AZ-hour").while_up(endpoints)
    if request.storage.has_login_pool and target.login_balancer:
        item = "elb.network-load-balancer"
        yield prices.line("load balancer of the login nodes", "network", item, "hour").while_up(1)
    if target.head is not None and target.head.dns_zones:
        zone = prices.line("private DNS zone", "network", "route53.hosted-zone", "zone-month")
        yield zone._replace(zones=target.head.dns_zones)


def public_addresses(prices: Prices, place: Place, target: Target) -> Line:
    """The public addresses of the nodes, and of the head node as long as the cluster is up."""
    line = prices.line("public IPv4 addresses", "network", "vpc.public-ipv4", "hour")
    return line._replace(an_hour_up=0 if target.head is None else 1, a_node_hour=place.nodes)


def network_data(
    prices: Prices, place: Place, request: PlanRequest, zone: str | None, chosen: Egress | None
) -> Iterator[Line]:
    """Data through the NAT and the endpoints of a new network; `zone` is the cluster's own.

    What nodes download costs nothing where they have public addresses, and through a NAT instance of their zone.
    """
    zones = nat_zones(request.network, zone)
    past_nat = LOGS in interface_endpoints(request, target_of(place.target), chosen)
    if chosen not in NATS:
        if past_nat:
            yield log_line(prices.line(*ENDPOINT_DATA), place)
        return
    facts = prices.catalog.instance_types[place.instance_type]
    gb_per_node = nat_gb_per_node(request, place.target, facts, place.region, prices.catalog)
    through = prices.line("NAT data", "network", "vpc.nat-gateway-data", "GB")
    through = through._replace(once=gb_per_node * place.nodes, a_loss=gb_per_node)
    if not past_nat:
        through = log_line(through, place)
    if chosen is Egress.NAT_GATEWAY:
        yield through
    if past_nat:
        yield log_line(prices.line(*ENDPOINT_DATA), place)
    if zone not in zones:
        # The sender and the receiver are both charged.
        between = prices.line("data to the NAT's zone and back", "network", "transfer.inter-az", "GB")
        yield between._replace(
            once=2 * through.once,
            an_hour_up=2 * through.an_hour_up,
            a_node_hour=2 * through.a_node_hour,
            a_loss=2 * through.a_loss,
        )


def log_line(line: Line, place: Place, months: float = 1.0) -> Line:
    """The line with the log GB of the head node and the nodes, multiplied by `months` if the line is storage."""
    gigabytes = LOG_GB_PER_NODE_HOUR * months
    return line._replace(an_hour_up=gigabytes, a_node_hour=gigabytes * place.nodes)


def network_assumptions(
    request: PlanRequest, catalog: Catalog, place: Place, chosen: Egress | None
) -> Iterator[Assumption]:
    """The assumptions behind the network lines."""
    network, kind = request.network, place.target
    asked = f"network.nat {network.nat or 'auto'}"
    if network.vpc_id is None and chosen is None and target_of(kind).in_service_network:
        source = "the service's own network has its own way out, which is in the rate"
        yield Assumption(name="NAT gateway and network", value="none", unit="", source=source)
        return
    if network.vpc_id is not None:
        yield Assumption(
            name="data through the NAT gateway",
            value="not counted",
            unit="",
            source=f"{network.vpc_id} has its own route to the internet",
        )
        return
    if chosen is Egress.PUBLIC_ADDRESSES:
        yield Assumption(name="way to the internet", value="public addresses, no inbound rules", unit="", source=asked)
        return
    if chosen is Egress.ENDPOINTS:
        services = ", ".join(interface_endpoints(request, target_of(kind), chosen))
        priced = f"endpoints of {services}, in one zone; " if services else ""
        source = f"{asked}: {priced}S3 by its gateway endpoint, without a price"
        yield Assumption(name="way to the internet", value="none", unit="", source=source)
        return
    yield from _behind_nat(request, catalog, place, chosen)


def image_assumptions(request: PlanRequest, catalog: Catalog, place: Place) -> Iterator[Assumption]:
    """The image of AWS that a launch pins, for targets that name it by a parameter of Systems Manager."""
    parameter = target_of(place.target).image_parameter(catalog.instance_types[place.instance_type])
    if parameter is not None and request.target.ami is None:
        value = "the newest at the launch, whose quote pins its id before the question"
        yield Assumption(name="image of the nodes", value=value, unit="", source=parameter)


def _behind_nat(request: PlanRequest, catalog: Catalog, place: Place, chosen: Egress | None) -> Iterator[Assumption]:
    """What nodes fetch through the NAT of a new network, and who pays for a shared one."""
    network = request.network
    if chosen is Egress.NAT_INSTANCE:
        source = f"network.nat {network.nat or 'auto'}: no price per GB, and nothing replaces it at once if it fails"
        yield Assumption(name="way to the internet", value=f"NAT instance {NAT_INSTANCE}", unit="", source=source)
    nat = "NAT gateway" if chosen is not Egress.NAT_INSTANCE else "NAT instance"
    weights = fetched_weights_gb(request, catalog)
    facts = catalog.instance_types[place.instance_type]
    others_gb = packages_gb(request, place.target, facts, place.region)
    past = "; the image is in ECR of the region, whose layers come from S3, past the NAT"
    yield Assumption(
        name=f"packages and images through the {nat}",
        value=f"{others_gb:g}",
        unit="GB a node",
        source=f"assumption, not measured{past if others_gb < NAT_GB_PER_NODE else ''}",
    )
    if weights:
        yield Assumption(
            name=f"weights through the {nat}",
            value=f"{weights:.3g}",
            unit="GB a node",
            source="from a hub, two bytes a parameter, again on each replacement node; run.data takes"
            " them from S3, past the NAT",
        )
    if network.name is not None:
        yield Assumption(
            name=f"network {network.name}, which clusters share",
            value="not counted" if network.shared_by else "counted in full",
            unit="",
            source=f"it exists for {', '.join(network.shared_by)}; only this job's data are counted"
            if network.shared_by
            else "the first plan that uses it creates it; the number of plans that will share it is unknown",
        )


class _ClusterLines(NamedTuple):
    """Lines that last as long as a cluster, independent of its nodes."""

    storage: tuple[Line, ...] = ()
    network: tuple[Line, ...] = ()
    instances: tuple[Line, ...] = ()
    watch: tuple[Line, ...] = ()


class Bill:
    """The non-compute lines of one request, for every place where it could run.

    A job on an existing cluster pays only for its own disks, checkpoints, data, metrics and logs.
    """

    def __init__(self, request: PlanRequest, catalog: Catalog, today: date) -> None:
        self.request = request
        self.catalog = catalog
        self.today = today
        self.own_cluster = _existing_cluster(request) is None
        self._cluster_lines: dict[tuple[str, TargetKind, Egress | None], _ClusterLines] = {}
        self._rests: dict[tuple[object, ...], OtherCosts] = {}
        self._egress_costs: dict[tuple[object, ...], OtherCosts] = {}
        self._networks: dict[tuple[TargetKind, str, Egress], tuple[OtherCosts, OtherCosts]] = {}
        self._kinds: dict[tuple[object, ...], int] = {}
        self._numbers: dict[tuple[object, ...], int] = {}

    def other_costs(self, place: Place, work: Work) -> OtherCosts:
        """The non-compute lines, computed once for all instance types that share them at a place."""
        key = (place.region, self._in_gateway_zone(place), work.checkpoint_gb, self._kind(place, work))
        if key not in self._rests:
            self._rests[key] = OtherCosts(self.lines(place, work, Prices(place.region, self.catalog)))
        return self._rests[key]

    def least_costs(self, place: Place, work: Work, lowest: LowestPrices) -> OtherCosts | None:
        """The non-compute lines at the lowest prices of some regions, whatever the region of the place.

        None if the lines depend on more of a region than its prices.
        """
        if self.request.purchase.price_overrides or self.request.network.az_ids:
            return None
        key = (lowest, True, work.checkpoint_gb, self._kind(place, work))
        if key not in self._rests:
            self._rests[key] = OtherCosts(self.lines(place, work, lowest))
        return self._rests[key]

    def _kind(self, place: Place, work: Work) -> int:
        """A number for what the lines depend on but for the region and the size of checkpoints: equal where it is."""
        egress_mode = self._egress(place, work)
        known = (place.target, place.nodes, place.instance_type, place.option, egress_mode)
        if known not in self._kinds:
            facts = self.catalog.instance_types[place.instance_type]
            kind = (
                *(place.target, place.nodes, egress_mode, bool(node_metrics(facts)), self._stops(place)),
                target_of(place.target).fees(self.request, place.nodes, facts),
                target_of(place.target).per_job and not facts.nvme_gb,
            )
            self._kinds[known] = self._numbers.setdefault(kind, len(self._numbers))
        return self._kinds[known]

    def _egress(self, place: Place, work: Work) -> Egress | None:
        return (
            work.egress(place)
            if work.egress_choice is not None
            else egress(self.request, place, self.catalog.instance_types)
        )

    def _stops(self, place: Place) -> bool:
        """Whether the guard ends the job at a spending limit."""
        return stops_at(self.request, place.option) is not None

    def lines(self, place: Place, work: Work, prices: Prices) -> tuple[Line, ...]:
        """The non-compute lines."""
        request = self.request
        facts = self.catalog.instance_types[place.instance_type]
        target, chosen = target_of(place.target), self._egress(place, work)
        cluster = self._lines_of_cluster(prices, target, chosen) if self.own_cluster else _ClusterLines()
        rows = [*cluster.storage]
        if not target.is_managed:
            rows.append(_root_volumes(prices, place, request, own_cluster=self.own_cluster))
        elif target.per_job and not facts.nvme_gb:
            rows.append(_job_volumes(prices, place, training_volume_gib(request, place.nodes, facts)))
        rows += (*_checkpoints(prices, request, work), *_outputs(prices, request), *cluster.network)
        if self.own_cluster and not (chosen is None and target.in_service_network):
            rows += network_data(prices, place, request, self._zone(place), chosen)
        if chosen is Egress.PUBLIC_ADDRESSES or any(subnet.public_addresses for subnet in request.network.subnets):
            rows.append(public_addresses(prices, place, target))
        rows += _transfer(prices, request)
        if not target.in_service_network:
            rows += _image_transfer(prices, request, place)
        if self.own_cluster and target.head is not None:
            name = target.head_instance(place.nodes, request.storage.head_node)
            rows.append(_instance_line(prices, target.head.name, name, 1, target))
        rows += (*cluster.instances, *_logs(prices, place))
        if self.own_cluster:
            rows += (self._fee(prices, fee) for fee in target.fees(request, place.nodes, facts))
        stops = self._stops(place)
        rows += metrics(prices, place, facts, own_cluster=self.own_cluster, stops=stops)
        return (*rows, *cluster.watch)

    def egress_costs(self, place: Place, egress_mode: Egress) -> OtherCosts:
        """The lines of a new network with one way to the internet, computed once for the types that share them."""
        zone = self._zone(place)
        key = (place.target, place.region, zone, place.nodes, egress_mode)
        if key not in self._egress_costs:
            prices, target = Prices(place.region, self.catalog), target_of(place.target)
            lines = [*network_lines(prices, self.request, target, egress_mode)]
            lines += network_data(prices, place, self.request, zone, egress_mode)
            if egress_mode is Egress.PUBLIC_ADDRESSES:
                lines.append(public_addresses(prices, place, target))
            self._egress_costs[key] = OtherCosts(tuple(lines))
        return self._egress_costs[key]

    def own_network_usd(self, place: Place, egress_mode: Egress, size: JobSize) -> Decimal:
        """What a network of its own costs a plan more than one that another plan shares."""
        key = (place.target, place.region, egress_mode)
        if key not in self._networks:
            prices, target = Prices(place.region, self.catalog), target_of(place.target)
            shared = replace(self.request, network=replace(self.request.network, shared_by=(SHARED,)))
            requests = (self.request, shared)
            own_costs, shared_costs = (
                OtherCosts(tuple(network_lines(prices, each, target, egress_mode))) for each in requests
            )
            self._networks[key] = own_costs, shared_costs
        own_costs, shared_costs = self._networks[key]
        return own_costs.total_usd(size) - shared_costs.total_usd(size)

    def _fee(self, prices: Prices, fee: Fee) -> Line:
        """A fee of the target's service, at the user's own price if the plan sets one."""
        line = prices.line(fee.name, "other", fee.item, fee.unit)
        price = self._own_price(fee.key, prices.region) or line.price
        if isinstance(price, Unpriced):
            price = replace(price, reason=f"its amount is not published offline: purchase.price_overrides {fee.key}")
        return line._replace(price=price, an_hour_up=fee.an_hour_up, a_node_hour=fee.a_node_hour, fee=fee.key)

    def _own_price(self, key: str, region: str) -> Price | None:
        """The user's price for a fee; a price with the region takes precedence over one without."""
        overrides = self.request.purchase.price_overrides
        name = next((candidate for candidate in (f"{key}/{region}", key) if candidate in overrides), None)
        if name is None:
            return None
        note = f"purchase.price_overrides {name}"
        return Price(usd=overrides[name], source=Basis.USER.value, basis=Basis.USER, as_of=self.today, note=note)

    def _in_gateway_zone(self, place: Place) -> bool:
        """Whether data reach the NAT gateway inside their zone: always, unless the plan names the network's zones."""
        network = self.request.network
        return not network.az_ids or (zone := self._zone(place)) in nat_zones(network, zone)

    def _zone(self, place: Place) -> str | None:
        return place.az_id or self.catalog.first_zone(place.instance_type, place.region)

    def _lines_of_cluster(self, prices: Prices, target: Target, chosen: Egress | None) -> _ClusterLines:
        """The lines that last as long as a cluster, computed once for each region, target and way to the internet."""
        key = (prices.region, target.kind, chosen)  # "" for the lowest prices, of which a bill sees one set
        if key not in self._cluster_lines:
            storage = self.request.storage
            gib = target.shared_gib(storage.lustre_gib)
            logins = storage.login_nodes
            self._cluster_lines[key] = _ClusterLines(
                storage=(_file_system(prices, gib, storage.lustre_mb_s_per_tib),) if gib else (),
                network=tuple(network_lines(prices, self.request, target, chosen)),
                instances=tuple(_cluster_instances(prices, logins, target)),
                watch=tuple(monitoring_lines(prices, self.request, target)),
            )
        return self._cluster_lines[key]


def _existing_cluster(request: PlanRequest) -> tuple[str, str] | None:
    """The existing cluster that runs the job, in words, and the plan key that names it; None for a new cluster."""
    target = request.target
    if target.cluster is not None:
        return f"cluster {target.cluster}", "target.cluster"
    return None if target.ssh_host is None else (f"the cluster of {target.ssh_host}", "target.ssh_host")


def transfer_usd(region: str, request: PlanRequest, catalog: Catalog) -> float:
    """Dollars to bring the training data to a region; 0 if no data move, or the transfer has no price."""
    return float(total_usd(_transfer(Prices(region, catalog), request), JobSize(0.0, None)))


def checkpoints_and_data_usd(region: str, request: PlanRequest, work: Work, hours: float, catalog: Catalog) -> Decimal:
    """Dollars of a job's checkpoints and training data, without any instance."""
    prices, size = Prices(region, catalog), JobSize(hours, work.checkpoint_interval_s)
    return total_usd((*_checkpoints(prices, request, work), *_transfer(prices, request)), size)


def bill_assumptions(
    request: PlanRequest,
    catalog: Catalog,
    place: Place,
    facts: InstanceType | None,
    *,
    size: JobSize,
    egress_mode: Egress | None,
) -> tuple[Assumption, ...]:
    """The assumptions behind the non-compute lines, for the quote of a job of a size.

    `egress_mode` is how the nodes of a new network reach the internet.
    """
    target, nodes = place.target, place.nodes
    lines = [
        _assumption("logs", f"{LOG_GB_PER_NODE_HOUR:g}", "GB a node-hour"),
        Assumption(name="billing unit", value="1.073741824", unit="GB of 10^9 bytes", source=BILLED),
    ]
    existing = _existing_cluster(request)
    if existing is None:
        source = f"start-up and idle tail of its nodes, at least {CLUSTER_OVERHEAD_H:g} h (assumption, not measured)"
        hours, up_h, *_ = size.amounts
        idle_h = f"{up_h - hours:.3g}"
        lines.append(Assumption(name="cluster time outside the job", value=idle_h, unit="h", source=source))
        lines += network_assumptions(request, catalog, place, egress_mode)
        lines += image_assumptions(request, catalog, place)
        lines += monitoring_assumptions()
    else:
        resources = "head node, network, file system and what watches them"
        if target_of(target).pods:
            resources = (
                "control plane, its own pods and nodes, network and what watches them: there already, not counted"
            )
        cluster, source = existing
        lines.append(Assumption(name=resources, value="paid by", unit=cluster, source=source))
    if target_of(target).is_managed:
        lines += volume_assumption(target, facts)
    if request.checkpoint.own_uri is not None:
        source = "checkpoint.mode own: what it keeps there, and for how long, is not priced"
        name = "checkpoints stored by the trainer"
        lines.append(Assumption(name=name, value=request.checkpoint.own_uri, unit="", source=source))
    elif request.checkpoint.mode is not CheckpointMode.NONE:
        lines.append(
            _assumption(
                f"storage time of the {number_of(request.checkpoint.keep, 'kept checkpoint')}",
                f"{RETENTION_MONTHS:g}",
                "month",
            )
        )
        rule = "the bucket's rule expires them at midnight; a bucket of your own needs the same"
        stay = f"{SUPERSEDED_MONTHS * HOURS_PER_MONTH:g}"
        lines.append(Assumption(name="checkpoints that newer ones replace stay for", value=stay, unit="h", source=rule))
    return (*lines, *outside_command_assumptions(request, facts, nodes, RETENTION_MONTHS))


def _assumption(name: str, value: str, unit: str) -> Assumption:
    return Assumption(name=name, value=value, unit=unit, source="assumption, not measured")


def _instance_line(prices: Prices, name: str, instance_type: str, count: int, target: Target) -> Line:
    """On-demand instances that run as long as the cluster."""
    price = prices.instance(instance_type, managed=target.is_managed)
    return Line(f"{name} {target.billed_name(instance_type)}", "other", "instance-hour", price).while_up(count)


def _cluster_instances(prices: Prices, logins: int, target: Target) -> Iterator[Line]:
    """The login nodes, and a control plane that the service bills."""
    if target.control_plane is not None:
        yield prices.line("control plane", "other", target.control_plane, "hour").while_up(1)
    if logins:
        yield _instance_line(prices, number_of(logins, "login node"), LOGIN_NODE, logins, target)


def _root_volumes(prices: Prices, place: Place, request: PlanRequest, *, own_cluster: bool) -> Line:
    """The root volumes: a node's lasts as long as the node, those of head and login nodes as long as the cluster."""
    nodes = COMPUTE_ROOT_GIB * place.nodes / HOURS_PER_MONTH
    cluster = 0.0
    if own_cluster:
        # A custom image must not be larger than the nodes' volumes.
        login = LOGIN_ROOT_GIB if request.target.ami is None else COMPUTE_ROOT_GIB
        head = HEAD_ROOT_GIB if target_of(place.target).head is not None else 0
        cluster = (head + login * request.storage.login_nodes) / HOURS_PER_MONTH
    line = prices.line("EBS gp3 root volumes", "storage", "ebs.gp3-storage", "GB-month")
    return line._replace(an_hour_up=cluster, a_node_hour=nodes)


def _job_volumes(prices: Prices, place: Place, gib: int) -> Line:
    """The volumes of a training job's nodes, of a type without local disks."""
    line = prices.line(f"volumes of the job, {gib:,} GiB", "storage", "sagemaker.training-storage", "GB-month")
    return line._replace(a_node_hour=gib * place.nodes / HOURS_PER_MONTH)


def _file_system(prices: Prices, gib: int, speed: int) -> Line:
    line = prices.line(f"FSx Lustre {gib} GiB, {speed} MB/s/TiB", "storage", FSX[speed], "GB-month")
    return line.while_up(gib / HOURS_PER_MONTH)


def _checkpoints(prices: Prices, request: PlanRequest, work: Work) -> Iterator[Line]:
    gigabytes, keep = work.checkpoint_gb, request.checkpoint.keep
    if request.checkpoint.mode in (CheckpointMode.NONE, CheckpointMode.OWN) or gigabytes is None:
        return
    stored = prices.line("S3 checkpoints", "storage", "s3.standard-storage", "GB-month")
    billed = billed_gb(gigabytes)
    retained = billed * keep
    yield stored._replace(once=retained * RETENTION_MONTHS, an_hour=retained / HOURS_PER_MONTH)
    yield stored._replace(name="S3 replaced checkpoints", a_save=billed * SUPERSEDED_MONTHS, saves_free=keep)
    puts = max(2.0, gigabytes * 1000 / PART_MB) / 1000
    yield prices.line("S3 uploads", "storage", "s3.put-requests", "1000 requests")._replace(a_save=puts)
    if request.storage.access_log and request.checkpoint.store_uri is None:
        months = ACCESS_LOG_DAYS * 24 / HOURS_PER_MONTH
        yield stored._replace(name="S3 access log", a_save=puts * ACCESS_LOG_GB_PER_1000 * months)


def _outputs(prices: Prices, request: PlanRequest) -> Iterator[Line]:
    """The outputs in the store, if the plan states their size."""
    if request.run.outputs_gib:
        stored = prices.line("S3 outputs", "storage", "s3.standard-storage", "GB-month")
        yield stored._replace(once=request.run.outputs_gib * RETENTION_MONTHS)


def _transfer(prices: Prices, request: PlanRequest) -> Iterator[Line]:
    """Training data that come from another region, at the price of that pair of regions."""
    data = request.workload.train.data if request.workload.train else None
    if data and data.gib and data.region and (price := prices.transfer(data.region)) is not None:
        yield Line(f"training data from {data.region}", "network", "GB", price, once=data.gib)


def _image_transfer(prices: Prices, request: PlanRequest, place: Place) -> Iterator[Line]:
    """A container image that each node fetches from ECR of another region, at the price of that pair of regions."""
    origin = ecr_region(request.run.image)
    if origin is not None and (price := prices.transfer(origin)) is not None:
        once = IMAGE_GB * place.nodes
        yield Line(f"container image from {origin}", "network", "GB", price, once=once, a_loss=IMAGE_GB)


def _logs(prices: Prices, place: Place) -> Iterator[Line]:
    """Ingestion and storage of the logs of the cluster, the jobs and the network."""
    yield log_line(prices.line("CloudWatch logs", "other", "cloudwatch.logs-ingestion", "GB"), place)
    months = LOG_RETENTION_DAYS * 24 / HOURS_PER_MONTH
    yield log_line(prices.line("CloudWatch logs kept", "other", "cloudwatch.logs-storage", "GB-month"), place, months)
