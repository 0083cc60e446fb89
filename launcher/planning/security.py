"""The account's rules for nodes with shell access: session logs, its own security groups."""

import re
from collections.abc import Iterator
from dataclasses import fields

from launcher.model.finding import Finding, error, warning
from launcher.model.named_role import ROLES, named_roles
from launcher.model.plan import Place
from launcher.model.request import PlanRequest, RoleRequest
from launcher.targets.registry import TARGETS, target_of

MAX_GROUPS = 3
"""With the cluster's own group and ParallelCluster's they are five, EC2's default for an interface (VPC user guide,
quotas, "Security groups per network interface"); on EKS they join the cluster's group and the nodes' group."""
_KEY = r"arn:aws[a-z-]*:kms:(?P<region>[a-z0-9-]+):\d{12}:key/[A-Za-z0-9-]+"
"""The ARN of a key. The ARN of an alias is not allowed: policies that allow its use name keys (KMS developer guide,
using aliases to control access)."""


def group_findings(request: PlanRequest) -> Iterator[Finding]:
    """Findings for existing security groups: they need a VPC, must be unique, and must fit on an interface."""
    network, path = request.network, "network.security_group_ids"
    groups = network.security_group_ids
    if groups and network.vpc_id is None:
        yield error("groups-without-vpc", path, "security groups are named and no VPC", "name their VPC")
    if len(groups) > MAX_GROUPS:
        message = f"must be at most {MAX_GROUPS}, got {len(groups)}: an interface has five, two are the cluster's own"
        yield error("too-many-groups", path, message, "drop some, or put their rules into one")
    twice = sorted({group for group in groups if groups.count(group) > 1})
    if twice:
        yield error("group-twice", path, f"{', '.join(twice)} named twice", "name each once")


def security_findings(request: PlanRequest, place: Place) -> tuple[Finding, ...]:
    """Why a target cannot log sessions, encrypt traffic, or use the key or roles."""
    return (*_unsuited_findings(request, place), *_key(request, place), *_roles(request, place))


def _roles(request: PlanRequest, place: Place) -> Iterator[Finding]:
    if request.target.cluster is not None or request.security.roles == RoleRequest():
        return
    row = target_of(place.target)
    uses = [role.key for role in row.roles]
    for field in fields(request.security.roles):
        if getattr(request.security.roles, field.name) is not None and field.name not in uses:
            message = f"{row.title} has no such role, it takes: {', '.join(uses)}"
            yield error("role-unused", f"{ROLES}.{field.name}", message, "remove it")
    if request.security.roles.login_nodes is not None and not request.storage.has_login_pool and "login_nodes" in uses:
        yield error("role-unused", f"{ROLES}.login_nodes", "the plan has no login nodes", "remove it")
    named = named_roles(request, row)
    accounts = sorted({role.account for role in named})
    if len(accounts) > 1:
        message = f"roles are of the account that is deployed to, got {' and '.join(accounts)}"
        yield error("roles-of-accounts", ROLES, message, "name roles of one account")


def _key(request: PlanRequest, place: Place) -> Iterator[Finding]:
    """Findings for a KMS key that the plan's region cannot use."""
    arn, path = request.storage.kms_key_arn, "storage.kms_key_arn"
    match = re.fullmatch(_KEY, arn) if arn is not None else None
    if arn is not None and match is None:
        form = "arn:aws:kms:REGION:ACCOUNT:key/ID"
        yield error("not-a-key", path, f"must be the ARN of a key ({form}), got {arn}", "an alias's does not do")
    elif match is not None and match["region"] != place.region:
        message = f"the key is of {match['region']}, the plan's place is {place.region}: KMS keys serve one region"
        yield error("key-region", path, message, f"name a key of {place.region}, or set target.region")


def _unsuited_findings(request: PlanRequest, place: Place) -> Iterator[Finding]:
    row = target_of(place.target)
    if request.target.cluster is not None:
        # The cluster exists, with its logging and access rules.
        return
    if request.security.encrypt_traffic and not row.encrypts_traffic:
        able = " or ".join(kind.value for kind, traits in TARGETS.items() if traits.encrypts_traffic)
        message = f"{row.title} has no setting for it, which only training jobs of SageMaker have"
        yield error("traffic-unencrypted", "security.encrypt_traffic", message, f"target.kind: {able}, or remove it")
    elif request.security.encrypt_traffic and place.nodes > 1:
        message = "SageMaker encrypts the traffic between nodes, and the estimated speed is that without encryption"
        hint = "measure one run, and set workload.train.throughput_tokens_per_s"
        yield warning("traffic-encryption-slows", "security.encrypt_traffic", message, hint)
    if request.security.session_log and not row.logs_sessions:
        able = " or ".join(kind.value for kind, traits in TARGETS.items() if traits.logs_sessions)
        message = f"sessions on {row.title} cannot be logged by a document of the stack's own"
        hint = f"target.kind: {able}, or remove it: these nodes cannot be entered"
        yield error("sessions-unlogged", "security.session_log", message, hint)
