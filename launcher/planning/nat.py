"""The way of a new network's nodes to the internet: a NAT gateway, or public addresses of their own."""

from collections.abc import Iterator, Mapping

from launcher.model.enums import NatMode
from launcher.model.finding import Finding, error
from launcher.model.instance_type import InstanceType
from launcher.model.plan import Place
from launcher.model.request import PlanRequest
from launcher.targets.registry import TARGETS, target_of

MOST_PUBLIC_NODES = 8
"""Nodes up to which public addresses cost less than a NAT gateway in every run: with the head node's, they are nine
addresses; a gateway costs as much an hour as nine addresses, and has one itself (catalog, prices/bill_items.csv)."""


def nat_mode(request: PlanRequest, place: Place, instances: Mapping[str, InstanceType]) -> NatMode | None:
    """How the nodes of a place reach the internet; None if Slipway creates no network for them."""
    network, target = request.network, request.target
    if network.vpc_id is not None or target.cluster is not None or target.ssh_host is not None:
        return None
    if target_of(place.target).in_service_network:
        return None
    if network.nat is not None:
        return network.nat
    cheaper = place.nodes <= MOST_PUBLIC_NODES
    return NatMode.NONE if cheaper and not obstacle(request, place, instances) else NatMode.GATEWAY


def obstacle(request: PlanRequest, place: Place, instances: Mapping[str, InstanceType]) -> str:
    """Why the nodes of a place cannot have public addresses; empty if they can."""
    row, names = target_of(place.target), (place.instance_type, *request.target.fallback_types)
    attached = place.nodes > 1 or row.efa_on_one_node
    several = [name for name in names if name in instances and attached and instances[name].network_cards > 1]
    if not row.public_nodes or request.workload.serve is not None:
        able = " or ".join(kind.value for kind, facts in TARGETS.items() if facts.public_nodes)
        return f"only nodes of {able} can have public addresses"
    if several:
        return f"EC2 gives no public address to an instance with several network cards, got {', '.join(several)}"
    if request.network.name is not None:
        return f"the clusters that share network {request.network.name} share its NAT gateway"
    if request.storage.has_login_pool and row.login_balancer:
        return "the load balancer of the login nodes is in a private subnet"
    return ""


def nat_findings(request: PlanRequest, place: Place, instances: Mapping[str, InstanceType]) -> Iterator[Finding]:
    """An error for `network.nat: none` at a place whose nodes cannot have public addresses."""
    if request.network.nat is NatMode.NONE and nat_mode(request, place, instances) is NatMode.NONE:
        reason = obstacle(request, place, instances)
        if reason:
            yield error("no-public-addresses", "network.nat", f"none does not work: {reason}", "set it to auto")
