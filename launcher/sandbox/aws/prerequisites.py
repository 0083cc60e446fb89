"""The existing resources that a plan names, emulated under the plan's own ids.

Emulated: a VPC, its subnets in their zones without public addresses, and their outbound route through a NAT gateway;
empty buckets; security groups without inbound rules; a SageMaker training plan. Not emulated: the other contents of the
user's own VPC and buckets, and the rules of the groups.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from ipaddress import IPv4Network
from types import ModuleType
from typing import Any

from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.ec2.models import ec2_backends, security_groups, subnets, vpcs

from launcher.sandbox.aws.buckets import backend_of
from launcher.sandbox.aws.training_plans import buy
from launcher.sandbox.cluster.training_plan import TrainingPlan

_RANGE = IPv4Network("10.0.0.0/16")
_SUBNET_BITS = 20
_ANYWHERE = "0.0.0.0/0"


def create_prerequisites(
    region: str,
    vpc_id: str | None,
    zones: Mapping[str, str | None],
    names: Sequence[str],
    bought: Sequence[TrainingPlan],
    *,
    groups: Sequence[str] = (),
) -> list[str]:
    """Create the missing resources; return the ids and names of the created ones.

    `zones` are zone ids by subnet id, None for any zone; the security groups of `groups` allow no inbound and all
    outbound traffic.
    """
    created = []
    if vpc_id is not None and vpc_id not in ec2_backends[DEFAULT_ACCOUNT_ID][region].vpcs:
        _network(region, vpc_id, zones)
        created += [vpc_id, *zones]
    created += [group for group in groups if vpc_id is not None and _group(region, vpc_id, group)]
    store = backend_of(DEFAULT_ACCOUNT_ID, region)
    for name in names:
        if name not in store.buckets:
            store.create_bucket(name, region)
            created.append(name)
    return [*created, *(plan.arn for plan in bought if buy(DEFAULT_ACCOUNT_ID, plan))]


def _network(region: str, vpc_id: str, zones: Mapping[str, str | None]) -> None:
    ec2: Any = ec2_backends[DEFAULT_ACCOUNT_ID][region]
    ranges = _RANGE.subnets(new_prefix=_SUBNET_BITS)
    with _fixed_id(vpcs, "random_vpc_id", vpc_id):
        vpc = ec2.create_vpc(str(_RANGE))
    internet = ec2.create_internet_gateway()
    ec2.attach_internet_gateway(internet.id, vpc.id)
    public = ec2.create_subnet(vpc.id, str(next(ranges)), availability_zone_id=next(iter(zones.values()), None))
    address = ec2.allocate_address("vpc")
    nat = ec2.create_nat_gateway(public.id, address.allocation_id)
    routes = ec2.create_route_table(vpc.id)
    ec2.create_route(routes.id, _ANYWHERE, nat_gateway_id=nat.id)
    for subnet_id, zone in zones.items():
        with _fixed_id(subnets, "random_subnet_id", subnet_id):
            subnet = ec2.create_subnet(vpc.id, str(next(ranges)), availability_zone_id=zone)
        # To moto the first subnet in a zone is the zone's default one, and hands out public addresses.
        subnet.default_for_az = False
        subnet.map_public_ip_on_launch = False
        ec2.associate_route_table(route_table_id=routes.id, subnet_id=subnet.id)


def _group(region: str, vpc_id: str, group_id: str) -> bool:
    ec2: Any = ec2_backends[DEFAULT_ACCOUNT_ID][region]
    if ec2.get_security_group_from_id(group_id) is not None:
        return False
    with _fixed_id(security_groups, "random_security_group_id", group_id):
        ec2.create_security_group(group_id, "a stand-in", vpc_id=vpc_id)
    return True


@contextmanager
def _fixed_id(module: ModuleType, function: str, name: str) -> Iterator[None]:
    """Make a function of a moto module return the given id within the block, instead of a generated id."""
    before = getattr(module, function)
    setattr(module, function, lambda: name)
    try:
        yield
    finally:
        setattr(module, function, before)
