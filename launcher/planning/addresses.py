"""The private addresses that a cluster needs, and the split of a VPC's range."""

from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from ipaddress import AddressValueError, IPv4Network, NetmaskValueError

from launcher.model.enums import EfaLayout
from launcher.model.errors import ImpossibleError
from launcher.model.finding import Finding, error, warning
from launcher.model.instance_type import InstanceType
from launcher.model.plan import Place
from launcher.model.record import record
from launcher.model.request import NetworkRequest, PlanRequest
from launcher.model.units import number_of
from launcher.targets.registry import target_of

AWS_RESERVED = 5
"""Addresses that AWS reserves in every subnet (VPC user guide, subnet sizing)."""
VPC_PREFIXES = range(16, 26)
"""Sizes of a VPC that Slipway splits: AWS allows /16 to /28; half of less than a /25 is too small for a cluster."""
ALLOWED = tuple(map(IPv4Network, ("10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.168.0.0/16")))
"""Private ranges that a VPC can have: RFC 1918, and the shared address space of RFC 6598 (VPC user guide, VPC CIDR
blocks). EC2 refuses loopback, link-local, multicast and reserved ranges, all of which Python calls private."""
DOCKER = IPv4Network("172.17.0.0/16")
"""The default bridge of Docker, which also SageMaker and Cloud9 use: "To avoid conflicts, do not use this range" (VPC
user guide, VPC CIDR blocks)."""
PUBLIC_PREFIX = 28
"""The NAT gateway's subnet: AWS's smallest, 11 addresses."""
ZONE_PREFIXES = range(16, 21)
"""Sizes of a VPC that clusters share: its private half is split into eight zones of at least a /24."""
ZONES = 8
"""Zones that fit into a shared VPC; no region numbers its zones beyond az6."""
LUSTRE_ADDRESSES_PER_STEP = 2
"""For every 1,200 GiB: generous, FSx for Lustre uses one address for each of its servers."""
LOAD_BALANCER_ADDRESSES = 8
"""Addresses that the load balancer of the login nodes may use (Elastic Load Balancing user guide)."""


@record
class Ranges:
    """A VPC's range, its public subnet (NAT alone) and its private one (everything else)."""

    vpc: IPv4Network
    public: IPv4Network
    private: IPv4Network


@cache
def ranges(cidr: str) -> Ranges:
    """The split of a VPC's range: the second half is private, the first /28 public, the rest of the first half free.

    Raises:
        ImpossibleError: the range is no network, or its size cannot be split.

    >>> cut = ranges("10.0.0.0/16")
    >>> str(cut.private), str(cut.public)
    ('10.0.128.0/17', '10.0.0.0/28')
    """
    try:
        vpc = IPv4Network(cidr)
    except (AddressValueError, NetmaskValueError, ValueError) as problem:
        finding = error("bad-range", "network.cidr", f"{cidr} is not a network: {problem}", "for instance 10.0.0.0/16")
        raise ImpossibleError("the network cannot be laid out", findings=[finding]) from problem
    if vpc.prefixlen not in VPC_PREFIXES or not any(vpc.subnet_of(allowed) for allowed in ALLOWED):
        allowed = ", ".join(map(str, ALLOWED))
        message = f"must be a range of size /{VPC_PREFIXES[0]} to /{VPC_PREFIXES[-1]} within {allowed}, got {cidr}"
        finding = error("bad-range", "network.cidr", message, "for instance 10.0.0.0/16")
        raise ImpossibleError("the network cannot be laid out", findings=[finding])
    lower, upper = vpc.subnets()
    return Ranges(vpc=vpc, public=next(lower.subnets(new_prefix=PUBLIC_PREFIX)), private=upper)


def docker_findings(cidr: str) -> Iterator[Finding]:
    """A warning for a range that overlaps with Docker's bridge: containers then cannot reach these addresses."""
    if ranges(cidr).vpc.overlaps(DOCKER):
        message = f"{cidr} overlaps with {DOCKER}, the bridge of Docker and SageMaker: containers cannot reach it"
        yield warning("docker-range", "network.cidr", message, "for instance 10.0.0.0/16")


def control_ranges(cut: Ranges) -> tuple[IPv4Network, IPv4Network]:
    """The two subnets of an EKS control plane: the /28s after the public one.

    >>> [str(each) for each in control_ranges(ranges("10.0.0.0/16"))]
    ['10.0.0.16/28', '10.0.0.32/28']
    """
    lower = next(cut.vpc.subnets())
    pieces = lower.subnets(new_prefix=PUBLIC_PREFIX)
    next(pieces)
    return next(pieces), next(pieces)


def zone_range(cut: Ranges, az_id: str) -> IPv4Network:
    """The private subnet of one zone of a shared network: an eighth of the private half, by the number in its id.

    The result therefore never depends on the other zones of the network.

    Raises:
        ImpossibleError: the range is too small to be split by zones, or the id has no number from 1 to 8.

    >>> str(zone_range(ranges("10.0.0.0/16"), "use2-az3"))
    '10.0.160.0/20'
    """
    if cut.vpc.prefixlen not in ZONE_PREFIXES:
        message = f"{cut.vpc} is too small to be shared, allowed: /{ZONE_PREFIXES[0]} to /{ZONE_PREFIXES[-1]}"
        raise ImpossibleError(
            "the network cannot be laid out", findings=[error("bad-range", "network.cidr", message, "10.0.0.0/16")]
        )
    number = az_id.rpartition("-az")[2]
    if not number.isdecimal() or not 1 <= int(number) <= ZONES:
        message = f"must be ids of availability zones, got {az_id}"
        raise ImpossibleError(
            "the network cannot be laid out", findings=[error("bad-zone", "network.az_ids", message, "use2-az1")]
        )
    return list(cut.private.subnets(prefixlen_diff=ZONES.bit_length() - 1))[int(number) - 1]


def new_subnet(network: NetworkRequest) -> IPv4Network:
    """The private subnet of a cluster in a new network; of a shared network the first, since all have one size.

    Raises:
        ImpossibleError: the range cannot be split.
    """
    cut = ranges(network.cidr)
    return zone_range(cut, network.az_ids[0]) if network.name is not None and network.az_ids else cut.private


def addresses_per_node(facts: InstanceType, layout: EfaLayout) -> int:
    """Private addresses of one node: efa-only interfaces have none of their own, combined ones each have one.

    >>> from launcher.catalog.load import load
    >>> p5 = load().instance_types["p5.48xlarge"]
    >>> addresses_per_node(p5, EfaLayout.AUTO), addresses_per_node(p5, EfaLayout.CLASSIC)
    (1, 32)
    """
    return max(1, facts.network_cards) if layout is EfaLayout.CLASSIC and facts.efa_interfaces else 1


def addresses(request: PlanRequest, place: Place, instances: Mapping[str, InstanceType]) -> int:
    """Private addresses of a cluster with all nodes running, including head node, login nodes and file system."""
    target, storage = target_of(place.target), request.storage
    types = (place.instance_type, *request.target.fallback_types)
    layout = target.efa_layout or request.target.efa_layout
    facts = [instances[name] for name in types]
    nodes = place.nodes * sum(target.node_addresses(each, addresses_per_node(each, layout)) for each in facts)
    balancer = LOAD_BALANCER_ADDRESSES if storage.has_login_pool and target.login_balancer else 0
    gib = target.shared_gib(storage.lustre_gib)
    lustre = 1 + LUSTRE_ADDRESSES_PER_STEP * -(-gib // 1200) if gib else 0
    return nodes + (target.head is not None) + storage.login_nodes + balancer + lustre


def address_findings(request: PlanRequest, place: Place, instances: Mapping[str, InstanceType]) -> tuple[Finding, ...]:
    """An error when a new network's private subnet has too few addresses; empty for an existing network.

    Raises:
        ImpossibleError: the range cannot be split.
    """
    network = request.network
    if network.vpc_id is not None:
        return ()
    subnet, have = _room(network)
    return too_few_addresses(request, place, instances, subnet=subnet, have=have)


@lru_cache(maxsize=8)
def _room(network: NetworkRequest) -> tuple[str, int]:
    """The private subnet of a cluster in a new network and its number of free addresses, the same in every place."""
    private = new_subnet(network)
    return str(private), private.num_addresses - AWS_RESERVED


def too_few_addresses(
    request: PlanRequest, place: Place, instances: Mapping[str, InstanceType], *, subnet: str, have: int
) -> tuple[Finding, ...]:
    """An error when a subnet with `have` free addresses cannot hold a cluster.

    Args:
        request: the plan request.
        place: the nodes.
        instances: the catalog's types, by name.
        subnet: the subnet's range or id, for the message.
        have: free addresses in the subnet.
    """
    required = addresses(request, place, instances)
    if required <= have:
        return ()
    nodes = number_of(place.nodes, "node")
    message = f"the private subnet {subnet} has {number_of(have, 'address')}, the cluster takes {required} with {nodes}"
    existing = request.network.vpc_id is not None
    hint = "a larger subnet" if existing else "a larger network.cidr, such as 10.0.0.0/16"
    if request.target.efa_layout is EfaLayout.CLASSIC:
        hint += ", or target.efa_layout: auto, where only the first interface has an address"
    path = "network.subnet_ids" if existing else "network.cidr"
    return (error("too-few-addresses", path, message, hint),)
