"""The network's part of the bill: ways out, endpoints, names, and the data that pass."""

from collections.abc import Iterator

from launcher.catalog.load import Catalog
from launcher.model.enums import Method, TargetKind
from launcher.model.gigabytes import billed_gb
from launcher.model.money import Assumption
from launcher.model.monitoring import interface_endpoints, nat_zones
from launcher.model.plan import Place
from launcher.model.request import PlanRequest
from launcher.model.target import Target, target_of
from launcher.model.workload import ModelDimensions
from launcher.pricing.bill_lines import Line, Prices

NAT_GB_PER_NODE = 20.0
"""Packages and a container image fetched through the NAT by each node: an assumption."""
WEIGHT_BYTES = 2.0
"""A parameter as model hubs keep it."""
LOG_GB_PER_NODE_HOUR = 0.05
"""Cluster, job and flow logs of one node: an assumption."""
LOGS = "logs"
"""The service whose endpoint takes the logs past the NAT gateway."""


def network_lines(prices: Prices, request: PlanRequest, target: Target) -> Iterator[Line]:
    """What exists as long as the cluster does: the network's own, and what the target puts into it."""
    if target.per_job:
        return
    gateways = len(nat_zones(request.network, None))
    if gateways:
        yield prices.line("NAT gateway", "network", "vpc.nat-gateway", "hour").while_up(gateways)
        yield prices.line("public IPv4 address of the NAT", "network", "vpc.public-ipv4", "hour").while_up(gateways)
    endpoints = len(interface_endpoints(request.network))
    if endpoints:
        name = f"{endpoints} interface endpoint{'s' if endpoints > 1 else ''}"
        yield prices.line(name, "network", "vpc.interface-endpoint", "AZ-hour").while_up(endpoints)
    if request.storage.has_login_pool and target.login_balancer:
        item = "elb.network-load-balancer"
        yield prices.line("load balancer of the login nodes", "network", item, "hour").while_up(1)
    if target.head is not None and target.head.dns_zones:
        zone = prices.line("private DNS zone", "network", "route53.hosted-zone", "zone-month")
        yield zone._replace(zones=target.head.dns_zones)


def network_data(prices: Prices, place: Place, request: PlanRequest, zone: str | None) -> Iterator[Line]:
    """Data through the NAT gateway and the endpoints of a network that is made; `zone` is the cluster's own."""
    gateways = nat_zones(request.network, zone)
    if not gateways:
        return
    each = NAT_GB_PER_NODE + fetched_weights_gb(request, prices.catalog)
    past_nat = LOGS in interface_endpoints(request.network)
    through = prices.line("NAT data", "network", "vpc.nat-gateway-data", "GB")
    through = through._replace(once=each * place.nodes, a_loss=each)
    if not past_nat:
        through = logged(through, place)
    yield through
    if past_nat:
        data = prices.line("interface endpoint data", "network", "vpc.interface-endpoint-data", "GB")
        yield logged(data, place)
    if zone not in gateways:
        # The sender and the receiver are both charged.
        between = prices.line("data to the NAT's zone and back", "network", "transfer.inter-az", "GB")
        yield between._replace(
            once=2 * through.once,
            an_hour_up=2 * through.an_hour_up,
            a_node_hour=2 * through.a_node_hour,
            a_loss=2 * through.a_loss,
        )


def fetched_weights_gb(request: PlanRequest, catalog: Catalog) -> float:
    """Billed GB of the weights that each node of a fine-tuning job fetches from outside of AWS; 0 where it needs none.

    Hubs keep two bytes a parameter (bf16). A job that says what it fetches from S3 (`run.data`) goes past the NAT.
    """
    train = request.workload.train
    if train is None or train.model is None or train.method is Method.PRETRAIN or request.run.data:
        return 0.0
    known = train.model if isinstance(train.model, ModelDimensions) else catalog.find_model(train.model)
    return 0.0 if known is None else billed_gb(WEIGHT_BYTES * known.params_b)


def logged(line: Line, place: Place, months: float = 1.0) -> Line:
    """A line with the GB of logs of the head node and the nodes, kept for `months` where it is storage."""
    gigabytes = LOG_GB_PER_NODE_HOUR * months
    return line._replace(an_hour_up=gigabytes, a_node_hour=gigabytes * place.nodes)


def network_assumptions(request: PlanRequest, catalog: Catalog, kind: TargetKind) -> Iterator[Assumption]:
    """What the network's part rests on."""
    network, assumed = request.network, "assumption, not measured"
    if network.vpc_id is None and target_of(kind).per_job:
        source = "the service's own network has its own way out, which is in the rate"
        yield Assumption(name="NAT gateway and network", value="none", unit="", source=source)
        return
    if network.vpc_id is not None:
        yield Assumption(
            name="data through the NAT gateway",
            value="not counted",
            unit="",
            source=f"{network.vpc_id} has a way out of its own",
        )
        return
    yield Assumption(
        name="packages and images through the NAT gateway",
        value=f"{NAT_GB_PER_NODE:g}",
        unit="GB a node",
        source=assumed,
    )
    weights = fetched_weights_gb(request, catalog)
    if weights:
        yield Assumption(
            name="weights through the NAT gateway",
            value=f"{weights:.3g}",
            unit="GB a node",
            source="from a hub, two bytes a parameter, again on each machine that replaces a lost one; run.data takes"
            " them from S3, past the NAT",
        )
    if network.name is not None:
        yield Assumption(
            name=f"network {network.name}, which clusters share",
            value="counted whole",
            unit="",
            source="whoever comes first makes it; nobody knows how many will share it",
        )
