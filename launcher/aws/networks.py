"""Networks as EC2 describes them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from launcher.aws.calls import unless_absent
from launcher.aws.session import Session, translate_errors

_NO_GROUP = frozenset(("InvalidGroup.NotFound", "InvalidGroupId.Malformed"))
"""Error codes for an id that no security group has (EC2 API reference, error codes)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubnetState:
    """One subnet: zone id, address range, free addresses, and whether its instances get public addresses."""

    id: str
    vpc_id: str
    az_id: str
    cidr: str
    free_addresses: int
    public_addresses: bool


def vpc_cidr(session: Session, vpc_id: str) -> str:
    """The address range of a VPC."""
    with translate_errors(f"describe {vpc_id}"):
        answer = session.client("ec2").describe_vpcs(VpcIds=[vpc_id])
    return str(answer["Vpcs"][0]["CidrBlock"])


def subnets(session: Session, ids: tuple[str, ...]) -> tuple[SubnetState, ...]:
    """The subnets with the given ids."""
    with translate_errors("describe subnets"):
        answer = session.client("ec2").describe_subnets(SubnetIds=list(ids))
    return tuple(
        SubnetState(
            id=subnet["SubnetId"],
            vpc_id=subnet["VpcId"],
            az_id=subnet["AvailabilityZoneId"],
            cidr=subnet["CidrBlock"],
            free_addresses=subnet["AvailableIpAddressCount"],
            public_addresses=bool(subnet["MapPublicIpOnLaunch"]),
        )
        for subnet in answer["Subnets"]
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityGroup:
    """One security group: its VPC, and whether all inbound and all outbound traffic passes between its members."""

    vpc_id: str
    lets_itself_in: bool
    lets_itself_out: bool


def security_group(session: Session, group_id: str) -> SecurityGroup | None:
    """The state of a security group; None if no group has that id."""
    ask = session.client("ec2").describe_security_groups
    answer = unless_absent(ask, f"describe {group_id}", _NO_GROUP, GroupIds=[group_id])
    if answer is None:
        return None
    (group,) = answer["SecurityGroups"]
    return SecurityGroup(
        vpc_id=str(group["VpcId"]),
        lets_itself_in=lets_all_from(group["IpPermissions"], group_id),
        lets_itself_out=lets_all_from(group["IpPermissionsEgress"], group_id),
    )


def group_vpcs(session: Session, ids: tuple[str, ...]) -> dict[str, str]:
    """The VPC of each of some security groups.

    Raises:
        AwsError: a security group does not exist, or the call failed.
    """
    with translate_errors("describe security groups"):
        answer = session.client("ec2").describe_security_groups(GroupIds=list(ids))
    return {str(group["GroupId"]): str(group["VpcId"]) for group in answer["SecurityGroups"]}


def default_routes(session: Session, subnet_id: str) -> tuple[str, ...]:
    """The targets of a subnet's default route: ids of NAT gateways, internet gateways or NAT instances."""
    with translate_errors(f"describe the routes of {subnet_id}"):
        answer = session.client("ec2").describe_route_tables(
            Filters=[{"Name": "association.subnet-id", "Values": [subnet_id]}]
        )
    return tuple(
        str(route.get("NatGatewayId") or route.get("InstanceId") or route.get("GatewayId", ""))
        for table in answer["RouteTables"]
        for route in table["Routes"]
        if route.get("DestinationCidrBlock") == "0.0.0.0/0"
    )


def security_group_rules(session: Session, group_id: str) -> dict[str, list[Any]]:
    """The rules of a security group, inbound and outbound, as EC2 returns them."""
    with translate_errors(f"describe {group_id}"):
        answer = session.client("ec2").describe_security_groups(GroupIds=[group_id])
    group = answer["SecurityGroups"][0]
    return {"in": group["IpPermissions"], "out": group["IpPermissionsEgress"]}


def lets_all_from(rules: Iterable[Mapping[str, Any]], group: str) -> bool:
    """Whether a rule lets all traffic pass between members of a group.

    >>> lets_all_from([{"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}], "sg-1")
    False
    """
    return any(
        rule["IpProtocol"] == "-1" and group in [pair["GroupId"] for pair in rule.get("UserIdGroupPairs", [])]
        for rule in rules
    )


def nat_gateways(session: Session, ids: Sequence[str]) -> tuple[tuple[bool, frozenset[str]], ...]:
    """Whether each of the given NAT gateways is available, and the allocation ids of its addresses."""
    with translate_errors("describe NAT gateways"):
        answer = session.client("ec2").describe_nat_gateways(NatGatewayIds=list(ids))
    return tuple(
        (
            gateway["State"] == "available",
            frozenset(str(address["AllocationId"]) for address in gateway["NatGatewayAddresses"]),
        )
        for gateway in answer["NatGateways"]
    )


def forwards_traffic(session: Session, instance_id: str) -> bool:
    """Whether EC2 lets an instance forward traffic of others, as a NAT instance has to."""
    with translate_errors(f"describe {instance_id}"):
        answer = session.client("ec2").describe_instances(InstanceIds=[instance_id])
    return not any(
        instance.get("SourceDestCheck", True)
        for reservation in answer["Reservations"]
        for instance in reservation["Instances"]
    )


def allocations(session: Session, addresses: Sequence[str]) -> tuple[str, ...]:
    """The allocation ids of some elastic addresses.

    Raises:
        AwsError: an address does not exist, or the call failed.
    """
    with translate_errors("describe addresses"):
        answer = session.client("ec2").describe_addresses(PublicIps=list(addresses))
    return tuple(str(address["AllocationId"]) for address in answer["Addresses"])


def endpoint_services(session: Session, ids: Sequence[str]) -> frozenset[tuple[str, str]]:
    """The service and the kind, Gateway or Interface, of some VPC endpoints."""
    with translate_errors("describe VPC endpoints"):
        answer = session.client("ec2").describe_vpc_endpoints(VpcEndpointIds=list(ids))
    return frozenset(
        (str(endpoint["ServiceName"]), str(endpoint["VpcEndpointType"])) for endpoint in answer["VpcEndpoints"]
    )


def flow_logs(session: Session, ids: Sequence[str]) -> frozenset[tuple[str, str]]:
    """The resources that flow logs monitor, and the traffic that they record."""
    with translate_errors("describe flow logs"):
        answer = session.client("ec2").describe_flow_logs(FlowLogIds=list(ids))
    return frozenset((str(log["ResourceId"]), str(log["TrafficType"])) for log in answer["FlowLogs"])


def attached_vpcs(session: Session, gateways: Sequence[str]) -> frozenset[str]:
    """The VPCs that some internet gateways are attached to."""
    with translate_errors("describe internet gateways"):
        answer = session.client("ec2").describe_internet_gateways(InternetGatewayIds=list(gateways))
    return frozenset(
        str(attachment["VpcId"]) for gateway in answer["InternetGateways"] for attachment in gateway["Attachments"]
    )


def tables_of(session: Session, subnet_ids: Sequence[str]) -> dict[str, str]:
    """The route table of each of some subnets."""
    filters = [{"Name": "association.subnet-id", "Values": list(subnet_ids)}]
    with translate_errors("describe route tables"):
        answer = session.client("ec2").describe_route_tables(Filters=filters)
    return {
        str(association["SubnetId"]): str(table["RouteTableId"])
        for table in answer["RouteTables"]
        for association in table["Associations"]
        if "SubnetId" in association
    }
