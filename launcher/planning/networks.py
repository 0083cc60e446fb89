"""The network of a cluster and its errors: a new network, one that clusters share, or an existing one."""

from collections.abc import Iterator

from launcher.catalog.load import Catalog
from launcher.model.administrator import by_administrator
from launcher.model.eks import UNSUPPORTED_ZONES
from launcher.model.errors import ImpossibleError
from launcher.model.finding import Finding, error, warning
from launcher.model.plan import Place, Plan
from launcher.model.request import NetworkRequest, PlanRequest, SubnetFacts
from launcher.planning.addresses import address_findings, docker_findings, new_subnet, too_few_addresses
from launcher.planning.checks import NOT_OFFERED, other_zones, zone_text
from launcher.planning.nat import nat_findings, obstacle
from launcher.planning.pin import zone
from launcher.targets.registry import target_of


def subnet_id(plan: Plan) -> str | None:
    """The existing subnet of a plan's nodes: the one in the plan's zone if known, else the first.

    None for a plan whose network is new.
    """
    return _choose_subnet(plan.request.network, plan.place.az_id)


def _choose_subnet(network: NetworkRequest, az_id: str | None) -> str | None:
    in_zone = (subnet.id for subnet in network.subnets if az_id is not None and subnet.az_id == az_id)
    return next(in_zone, next(iter(network.subnet_ids), None))


def control_zones(nodes_zone: str | None) -> tuple[str | None, str | None]:
    """The zones of an EKS control plane: that of the nodes if supported, and another; twice None: the first two.

    >>> control_zones("use1-az6"), control_zones("usw1-az3")
    (('use1-az6', 'use1-az1'), ('usw1-az3', 'usw1-az1'))
    """
    if nodes_zone is None:
        return None, None
    prefix = nodes_zone.rpartition("-az")[0]
    every = [nodes_zone, *(f"{prefix}-az{number}" for number in (1, 2, 4, 3))]
    first, second, *_ = (zone for zone in dict.fromkeys(every) if zone not in UNSUPPORTED_ZONES)
    return first, second


def layout_findings(network: NetworkRequest) -> tuple[Finding, ...]:
    """The findings on a network itself: contradicting keys, an invalid range, or a range that Docker uses."""
    findings = list(_contradictions(network))
    if not findings and network.vpc_id is None:
        try:
            new_subnet(network)
            findings.extend(docker_findings(network.cidr))
        except ImpossibleError as problem:
            findings.extend(problem.findings)
    return tuple(findings)


def network_findings(request: PlanRequest, place: Place, catalog: Catalog) -> tuple[Finding, ...]:
    """All findings that keep a cluster from its network; empty if there are none.

    Raises:
        ImpossibleError: the address range cannot be split.
    """
    network = request.network
    findings = list(_contradictions(network))
    if findings:
        return tuple(findings)
    if network.vpc_id is not None:
        findings.extend(_existing(request, place, catalog))
    else:
        if network.name is not None:
            findings.extend(_shared_network_findings(network, place, catalog))
        findings.extend(nat_findings(request, place, catalog.instance_types))
        findings.extend(address_findings(request, place, catalog.instance_types))
    return tuple(findings)


def _contradictions(network: NetworkRequest) -> Iterator[Finding]:
    """Findings for keys that contradict each other."""
    if network.vpc_id is not None:
        keys = ("name", "az_ids", "endpoints", "nat")
        for key, given in ((key, getattr(network, key)) for key in keys):
            if given:
                message = f"{network.vpc_id} exists and is used unchanged, so {key} has no effect"
                yield error("network-exists", f"network.{key}", message, f"drop {key}, or drop vpc_id")
    elif network.name is not None and not network.az_ids:
        message = f"the clusters that share {network.name} must agree on its zones, and none is named"
        yield error(
            "zones-missing",
            "network.az_ids",
            message,
            "pin target.region for all of its zones, or name them, the same in every plan: [use2-az1, use2-az3]",
        )
    elif network.az_ids and network.name is None:
        message = "only a network that clusters share has several zones"
        yield error("zones-without-name", "network.az_ids", message, "give network.name, or pin target.az_id")
    if len(set(network.az_ids)) < len(network.az_ids):
        yield error("zone-twice", "network.az_ids", "a zone is given twice", "name every zone once")


def _shared_network_findings(network: NetworkRequest, place: Place, catalog: Catalog) -> Iterator[Finding]:
    for az_id in network.az_ids:
        region = catalog.region_of_az(az_id)
        if region != place.region:
            lies = f"lies in {region}" if region else "is not a zone ID of the catalog"
            yield error("zone-outside-region", "network.az_ids", f"{az_id} {lies}, the plan is for {place.region}")
    zone_id = zone(place, catalog)
    if zone_id not in network.az_ids:
        zones = ", ".join(network.az_ids)
        message = f"the capacity is in {zone_id}, the network {network.name} has {zones}"
        yield error("zone-outside-network", "target.az_id", message, "pin one of them, or add the zone to every plan")


def _existing(request: PlanRequest, place: Place, catalog: Catalog) -> Iterator[Finding]:
    """Findings on the chosen subnet, if Slipway has read it: region, zone, public addresses and free ones."""
    chosen = _choose_subnet(request.network, place.az_id)
    facts = next((subnet for subnet in request.network.subnets if subnet.id == chosen), None)
    if facts is None:
        return
    yield from _wrong_place(request, place, facts, catalog)
    for name in (place.instance_type, *request.target.fallback_types):
        zones = other_zones(name, facts.az_id, catalog) if name in catalog.instance_types else ()
        # EC2 has a reservation's instances in its zone.
        if zones and request.purchase.reservation is None:
            hint = f"name a subnet in {zones[0]}; slipway doctor FILE asks AWS for the zones of this account"
            message = f"{facts.id} lies in {facts.az_id}: {zone_text(name, facts.az_id, zones)}"
            yield warning(NOT_OFFERED, "network.subnet_ids", message, hint)
    # A node with one interface gets its address from the subnet, and has no inbound rule.
    own_egress = target_of(place.target).per_job and not obstacle(request, place, catalog.instance_types)
    if facts.public_addresses and not own_egress:
        message = f"{facts.id} gives its instances public addresses, and nodes need none: they reach out through NAT"
        if catalog.instance_types[place.instance_type].network_cards > 1:
            message = f"{facts.id} gives its instances public addresses, which AWS refuses for several network cards"
        command = f"aws ec2 modify-subnet-attribute --subnet-id {facts.id} --no-map-public-ip-on-launch"
        hint = f"a private subnet with a NAT gateway, or {by_administrator(command)}"
        yield error("public-subnet", "network.subnet_ids", message, hint)
    yield from too_few_addresses(request, place, catalog.instance_types, subnet=facts.id, have=facts.free_addresses)


def _wrong_place(request: PlanRequest, place: Place, facts: SubnetFacts, catalog: Catalog) -> Iterator[Finding]:
    region = catalog.region_of_az(facts.az_id)
    if region != place.region:
        lies = f"lies in {facts.az_id}" + (f" ({region})" if region else "")
        message = f"{facts.id} {lies}, the plan is for {place.region}"
        yield error("subnet-outside-region", "network.subnet_ids", message, "name a subnet of that region")
    elif place.az_id not in (None, facts.az_id):
        kind = "reservation" if request.purchase.reservation is not None else "plan"
        message = f"{facts.id} lies in {facts.az_id}, the {kind} is in {place.az_id}"
        yield error("subnet-outside-zone", "network.subnet_ids", message, f"name a subnet in {place.az_id}")
