"""How many private addresses a cluster takes, and how a VPC's range is cut for them."""

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Network, NetmaskValueError

from launcher.model.enums import EfaLayout
from launcher.model.errors import ImpossibleError
from launcher.model.finding import Finding, error
from launcher.model.instance_type import InstanceType
from launcher.model.plan import Plan

AWS_RESERVED = 5
"""Addresses that AWS keeps of every subnet (VPC user guide, subnet sizing)."""
VPC_PREFIXES = range(16, 26)
"""Sizes of a VPC that are cut here: AWS allows /16 to /28; half of less than a /25 is too small for a cluster."""
PUBLIC_PREFIX = 28
"""The NAT gateway's subnet: AWS's smallest, 11 addresses."""
LUSTRE_ADDRESSES_PER_STEP = 2
"""For every 1,200 GiB: generous, FSx for Lustre takes one address for each of its servers."""
LOAD_BALANCER_ADDRESSES = 8
"""What the load balancer in front of the login nodes may take (Elastic Load Balancing user guide)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranges:
    """A VPC's range, its public subnet (NAT alone) and its private one (everything else)."""

    vpc: IPv4Network
    public: IPv4Network
    private: IPv4Network


def ranges(cidr: str) -> Ranges:
    """A VPC's range, cut: the second half is private, the first /28 public, the rest of the first half stays free.

    Raises:
        ImpossibleError: it is no network of a size that can be cut.

    >>> cut = ranges("10.0.0.0/16")
    >>> str(cut.private), str(cut.public)
    ('10.0.128.0/17', '10.0.0.0/28')
    """
    try:
        vpc = IPv4Network(cidr)
    except (AddressValueError, NetmaskValueError, ValueError) as problem:
        found = error("bad-range", "network.cidr", f"{cidr} is no network: {problem}", "for instance 10.0.0.0/16")
        raise ImpossibleError("the network cannot be laid out", findings=[found]) from problem
    if vpc.prefixlen not in VPC_PREFIXES or not vpc.is_private:
        message = f"{cidr} must be a private range of size /{VPC_PREFIXES[0]} to /{VPC_PREFIXES[-1]}"
        found = error("bad-range", "network.cidr", message, "for instance 10.0.0.0/16")
        raise ImpossibleError("the network cannot be laid out", findings=[found])
    lower, upper = vpc.subnets()
    return Ranges(vpc=vpc, public=next(lower.subnets(new_prefix=PUBLIC_PREFIX)), private=upper)


def addresses_per_node(facts: InstanceType, layout: EfaLayout) -> int:
    """Private addresses one node takes: efa-only interfaces have none of their own, combined ones each have one.

    >>> from launcher.catalog.load import load
    >>> p5 = load().instance_types["p5.48xlarge"]
    >>> addresses_per_node(p5, EfaLayout.AUTO), addresses_per_node(p5, EfaLayout.CLASSIC)
    (1, 32)
    """
    return max(1, facts.network_cards) if layout is EfaLayout.CLASSIC and facts.efa_interfaces else 1


def addresses(plan: Plan, instances: Mapping[str, InstanceType]) -> int:
    """Private addresses a plan's cluster takes with all nodes up, head node, login nodes and file system included."""
    request = plan.request
    types = (plan.place.instance_type, *request.target.fallback_types)
    nodes = plan.place.nodes * sum(addresses_per_node(instances[each], request.target.efa_layout) for each in types)
    login = request.storage.login_nodes + LOAD_BALANCER_ADDRESSES if request.storage.login_nodes else 0
    lustre = 1 + LUSTRE_ADDRESSES_PER_STEP * -(-request.storage.lustre_gib // 1200) if request.storage.lustre_gib else 0
    return nodes + 1 + login + lustre


def address_findings(plan: Plan, instances: Mapping[str, InstanceType]) -> tuple[Finding, ...]:
    """An error when a new network's private subnet has too few addresses for a plan; nothing for an existing network.

    Raises:
        ImpossibleError: the range cannot be cut.
    """
    network = plan.request.network
    if network.vpc_id is not None:
        return ()
    private = ranges(network.cidr).private
    wanted, have = addresses(plan, instances), private.num_addresses - AWS_RESERVED
    if wanted <= have:
        return ()
    message = (
        f"the private subnet {private} has {have} addresses, the cluster takes {wanted} with {plan.place.nodes} nodes"
    )
    hint = "a larger network.cidr, such as 10.0.0.0/16"
    if plan.request.target.efa_layout is EfaLayout.CLASSIC:
        hint += ", or target.efa_layout: auto, which takes one address a node"
    return (error("too-few-addresses", "network.cidr", message, hint),)
