"""The network's part of the bill: ways out, endpoints, names, and the data that pass."""

from collections.abc import Iterator

from launcher.model.money import Assumption
from launcher.model.monitoring import interface_endpoints, nat_zones
from launcher.model.plan import Place
from launcher.model.request import PlanRequest
from launcher.model.target import Target
from launcher.pricing.bill_lines import CLUSTER_OVERHEAD_H, Line, Prices

NAT_GB_PER_NODE = 20.0
"""Packages and a container image fetched through the NAT by each node: an assumption."""
LOG_GB_PER_NODE_HOUR = 0.05
"""Cluster, job and flow logs of one node: an assumption."""
LOGS = "logs"
"""The service whose endpoint takes the logs past the NAT gateway."""


def network_lines(prices: Prices, request: PlanRequest, target: Target) -> Iterator[Line]:
    """What exists as long as the cluster does: the network's own, and what the target puts into it."""
    gateways = len(nat_zones(request.network, None))
    if gateways:
        yield prices.line("NAT gateway", "network", "vpc.nat-gateway", "hour").while_up(gateways)
        yield prices.line("public IPv4 address of the NAT", "network", "vpc.public-ipv4", "hour").while_up(gateways)
    endpoints = len(interface_endpoints(request.network))
    if endpoints:
        name = f"{endpoints} interface endpoint{'s' if endpoints > 1 else ''}"
        yield prices.line(name, "network", "vpc.interface-endpoint", "AZ-hour").while_up(endpoints)
    if request.storage.login_nodes and target.login_balancer:
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
    fetched, logged = NAT_GB_PER_NODE * place.nodes, log_gb_per_hour(place)
    past_nat = LOGS in interface_endpoints(request.network)
    through = prices.line("NAT data", "network", "vpc.nat-gateway-data", "GB")
    through = through._replace(once=fetched) if past_nat else _logged(through, logged, fetched)
    yield through
    if past_nat:
        data = prices.line("interface endpoint data", "network", "vpc.interface-endpoint-data", "GB")
        yield _logged(data, logged, 0.0)
    if zone not in gateways:
        # The sender and the receiver are both charged.
        between = prices.line("data to the NAT's zone and back", "network", "transfer.inter-az", "GB")
        yield between._replace(once=2 * through.once, an_hour=2 * through.an_hour)


def log_gb_per_hour(place: Place) -> float:
    """GB of logs an hour, of the nodes and the head node."""
    return LOG_GB_PER_NODE_HOUR * (place.nodes + 1)


def _logged(line: Line, gb_per_hour: float, once: float) -> Line:
    """A line with a quantity of logs as long as the cluster runs, and something once."""
    return line._replace(once=once + gb_per_hour * CLUSTER_OVERHEAD_H, an_hour=gb_per_hour)


def network_assumptions(request: PlanRequest) -> Iterator[Assumption]:
    """What the network's part rests on."""
    network, assumed = request.network, "assumption, not measured"
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
    if network.name is not None:
        yield Assumption(
            name=f"network {network.name}, which clusters share",
            value="counted whole",
            unit="",
            source="whoever comes first makes it; nobody knows how many will share it",
        )
