"""What an account demands of the machines that people enter: a log of their sessions, security groups of its own."""

from collections.abc import Iterator

from launcher.model.finding import Finding, error
from launcher.model.plan import Place
from launcher.model.request import PlanRequest
from launcher.model.target import TARGETS, target_of

MOST_GROUPS = 3
"""With the cluster's own group and ParallelCluster's they are five, EC2's default for an interface (VPC user guide,
quotas, "Security groups per network interface")."""


def group_findings(request: PlanRequest) -> Iterator[Finding]:
    """Existing security groups: of a VPC that exists, each once, and no more than an interface takes."""
    network, path = request.network, "network.security_group_ids"
    groups = network.security_group_ids
    if groups and network.vpc_id is None:
        yield error("groups-without-vpc", path, "security groups are named and no VPC", "name their VPC")
    if len(groups) > MOST_GROUPS:
        message = f"must be at most {MOST_GROUPS}, got {len(groups)}: an interface has five, two are the cluster's own"
        yield error("too-many-groups", path, message, "drop some, or put their rules into one")
    twice = sorted({each for each in groups if groups.count(each) > 1})
    if twice:
        yield error("group-twice", path, f"{', '.join(twice)} named twice", "name each once")


def security_findings(request: PlanRequest, place: Place) -> tuple[Finding, ...]:
    """Why a target cannot give what `security.session_log` and `network.security_group_ids` ask for."""
    return tuple(_unsuited(request, place))


def _unsuited(request: PlanRequest, place: Place) -> Iterator[Finding]:
    row = target_of(place.target)
    if request.target.cluster is not None:
        # The cluster is there, and what it logs and admits was decided with it.
        return
    if request.security.session_log and not row.logs_sessions:
        able = " or ".join(kind.value for kind, each in TARGETS.items() if each.logs_sessions)
        message = f"sessions on {row.title} cannot be logged by a document of the stack's own"
        hint = f"target.kind: {able}; or the account's own: SSM-SessionManagerRunShell holds its preferences"
        yield error("sessions-unlogged", "security.session_log", message, hint)
    if request.network.security_group_ids and not row.joins_groups:
        able = " or ".join(kind.value for kind, each in TARGETS.items() if each.joins_groups)
        message = f"the machines of {row.title} take the cluster's own security group alone"
        yield error("groups-unused", "network.security_group_ids", message, f"target.kind: {able}, or drop it")
