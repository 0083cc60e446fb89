"""Networks as EC2 describes them."""

from dataclasses import dataclass
from typing import Any

from launcher.aws.session import Session, translated


@dataclass(frozen=True, slots=True, kw_only=True)
class SubnetState:
    """One subnet: its zone id, its range, the addresses free in it, and whether machines in it get public ones."""

    id: str
    vpc_id: str
    az_id: str
    cidr: str
    free_addresses: int
    public_addresses: bool


def vpc_cidr(session: Session, vpc_id: str) -> str:
    """The address range of a VPC.

    Raises:
        AwsError: the call failed.
    """
    with translated(f"describe {vpc_id}"):
        answer = session.client("ec2").describe_vpcs(VpcIds=[vpc_id])
    return str(answer["Vpcs"][0]["CidrBlock"])


def subnets(session: Session, ids: tuple[str, ...]) -> tuple[SubnetState, ...]:
    """The subnets of some ids.

    Raises:
        AwsError: the call failed.
    """
    with translated("describe subnets"):
        answer = session.client("ec2").describe_subnets(SubnetIds=list(ids))
    return tuple(
        SubnetState(
            id=each["SubnetId"],
            vpc_id=each["VpcId"],
            az_id=each["AvailabilityZoneId"],
            cidr=each["CidrBlock"],
            free_addresses=each["AvailableIpAddressCount"],
            public_addresses=bool(each["MapPublicIpOnLaunch"]),
        )
        for each in answer["Subnets"]
    )


def default_routes(session: Session, subnet_id: str) -> tuple[str, ...]:
    """Where a subnet's default route leads: ids of NAT gateways or internet gateways.

    Raises:
        AwsError: the call failed.
    """
    with translated(f"describe the routes of {subnet_id}"):
        answer = session.client("ec2").describe_route_tables(
            Filters=[{"Name": "association.subnet-id", "Values": [subnet_id]}]
        )
    return tuple(
        str(route.get("NatGatewayId") or route.get("GatewayId", ""))
        for table in answer["RouteTables"]
        for route in table["Routes"]
        if route.get("DestinationCidrBlock") == "0.0.0.0/0"
    )


def security_group_rules(session: Session, group_id: str) -> dict[str, list[Any]]:
    """The rules of a security group, inward and outward, as EC2 gives them.

    Raises:
        AwsError: the call failed.
    """
    with translated(f"describe {group_id}"):
        answer = session.client("ec2").describe_security_groups(GroupIds=[group_id])
    group = answer["SecurityGroups"][0]
    return {"in": group["IpPermissions"], "out": group["IpPermissionsEgress"]}
