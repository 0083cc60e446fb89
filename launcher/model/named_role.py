"""IAM roles that a plan names to replace roles of its stacks."""

from launcher.model.record import record
from launcher.model.request import PlanRequest
from launcher.model.target import RoleUse, Target

ROLES = "security.roles"


@record
class NamedRole:
    """A role: its ARN, and its use."""

    arn: str
    use: RoleUse

    @property
    def path(self) -> str:
        """The plan file key that names the role."""
        return f"{ROLES}.{self.use.key}"

    @property
    def name(self) -> str:
        """The name of the role, without its path.

        >>> use = RoleUse(key="nodes", service="ec2.amazonaws.com", needs=())
        >>> NamedRole(arn="arn:aws:iam::123456789012:role/team/nodes", use=use).name
        'nodes'
        """
        return self.arn.rpartition("/")[2]

    @property
    def account(self) -> str:
        """The account of the role."""
        return self.arn.split(":")[4]


def named_roles(request: PlanRequest, row: Target) -> tuple[NamedRole, ...]:
    """The roles that a plan names and a target uses; empty for a job on an existing cluster."""
    if request.target.cluster is not None:
        return ()
    roles = request.security.roles
    configured = ((getattr(roles, role.key), role) for role in row.roles)
    return tuple(NamedRole(arn=arn, use=use) for arn, use in configured if arn is not None)
