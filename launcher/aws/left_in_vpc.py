"""Resources of others in a VPC, which keep CloudFormation from deleting it.

Examples: the endpoint and the security group of GuardDuty's Runtime Monitoring, which GuardDuty creates by itself and
keeps (GuardDuty user guide, "Disabling, uninstalling, and cleaning up resources in Runtime Monitoring"), and free
interfaces of the VPC CNI (aws/amazon-vpc-cni-k8s, issues 69 and 608).
"""

from collections.abc import Collection, Iterator
from typing import Any

from launcher.aws.calls import items
from launcher.aws.session import Session, translate_errors

GONE = ("deleting", "deleted")
"""The states of an endpoint that needs no deletion."""


def left_in_vpc(session: Session, vpc_id: str, own: Collection[str]) -> tuple[str, ...]:
    """One line for each endpoint, interface and security group except `own` ids, with the command that deletes it.

    The order is that of the deletion: interfaces of endpoints are deleted with them.
    """
    with translate_errors(f"list what is left in {vpc_id}"):
        return tuple(_lines(session, vpc_id, own))


def _lines(session: Session, vpc_id: str, own: Collection[str]) -> Iterator[str]:
    client, subject = session.client("ec2"), f"list what is left in {vpc_id}"
    within = [{"Name": "vpc-id", "Values": [vpc_id]}]
    with_endpoints: set[str] = set()
    for endpoint in items(client.describe_vpc_endpoints, subject, "VpcEndpoints", Filters=within):
        name = endpoint["VpcEndpointId"]
        with_endpoints |= set(endpoint.get("NetworkInterfaceIds", ()))
        if name not in own and endpoint["State"].lower() not in GONE:
            yield _line(session, name, endpoint["ServiceName"], f"delete-vpc-endpoints --vpc-endpoint-ids {name}")
    for interface in items(client.describe_network_interfaces, subject, "NetworkInterfaces", Filters=within):
        name = interface["NetworkInterfaceId"]
        if name in own or name in with_endpoints:
            continue
        free = interface["Status"] == "available"
        command = f"delete-network-interface --network-interface-id {name}" if free else None
        yield _line(session, name, _user(interface), command)
    for group in items(client.describe_security_groups, subject, "SecurityGroups", Filters=within):
        name = group["GroupId"]
        if name not in own and group["GroupName"] != "default":
            yield _line(session, name, group["GroupName"], f"delete-security-group --group-id {name}")


def _user(interface: dict[str, Any]) -> str:
    """What uses an interface."""
    attached = interface.get("Attachment", {})
    by = attached.get("InstanceId") or attached.get("InstanceOwnerId") or interface.get("RequesterId")
    texts = (interface.get("Description"), f"used by {by}" if by and interface["Status"] != "available" else "")
    return ", ".join(text for text in texts if text) or "without a description"


def _line(session: Session, name: str, what: str, command: str | None) -> str:
    removal = f"aws ec2 {command} --region {session.region}" if command else "its owner deletes it"
    return f"{name} ({what}): {removal}"
