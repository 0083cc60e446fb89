"""Service-linked roles, which an account creates once."""

from launcher.aws.calls import unless_absent
from launcher.aws.session import Session

SPOT = "spot.amazonaws.com"
FSX = "fsx.amazonaws.com"
SERVICE_ROLES = {
    SPOT: "AWSServiceRoleForEC2Spot",
    FSX: "AWSServiceRoleForAmazonFSx",
}
"""The role of each service without which a launch fails (EC2 user guide, service-linked role for spot requests; FSx
for Lustre user guide, using service-linked roles)."""


def make_command(service: str) -> str:
    """The command that creates a service's role, once per account.

    >>> make_command(SPOT)
    'aws iam create-service-linked-role --aws-service-name spot.amazonaws.com'
    """
    return f"aws iam create-service-linked-role --aws-service-name {service}"


def has_service_role(session: Session, service: str) -> bool:
    """Whether the account has the role of a service."""
    name = SERVICE_ROLES[service]
    role = unless_absent(session.client("iam").get_role, f"look up role {name}", {"NoSuchEntity"}, RoleName=name)
    return role is not None
