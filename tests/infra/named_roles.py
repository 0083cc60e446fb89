"""Plans of each kind that name existing roles."""

from launcher.model.enums import TargetKind
from launcher.targets.registry import TARGETS
from tests.infra.iam import ACCOUNT

ROLES = {
    key: f"arn:aws:iam::{ACCOUNT}:role/team/{key}"
    for key in ("nodes", "head_node", "login_nodes", "control_plane", "pods")
}


def request(kind, *, named=True, **more):
    """A plan of a kind, with all the roles that the kind takes."""
    roles = {role.key: ROLES[role.key] for role in TARGETS[TargetKind(kind)].roles} if named else {}
    return {
        "slipway": 1,
        "name": "named",
        "target": {
            "kind": kind,
            "region": "us-east-2",
            "az_id": "use2-az1",
            "instance_type": "p5.48xlarge",
            "nodes": 2,
        },
        "purchase": {"option": "on-demand"},
        "storage": {"login_nodes": 1 if kind == "parallelcluster" else 0},
        "security": {"roles": roles, "session_log": False},
        **more,
    }
