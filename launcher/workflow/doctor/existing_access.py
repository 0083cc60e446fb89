"""Security groups and roles that a plan names: they exist, and allow what the job needs."""

import json
from collections.abc import Iterator

from launcher.aws import roles as account_roles
from launcher.aws.identity import Decision, simulate_permissions
from launcher.aws.networks import SecurityGroup, security_group
from launcher.aws.session import error_code
from launcher.catalog.permissions import load_permissions
from launcher.model.administrator import by_administrator
from launcher.model.diagnosis import Check, failed_check, ok
from launcher.model.errors import AwsError
from launcher.model.kubernetes import ACCOUNT_KEY
from launcher.model.named_role import NamedRole, named_roles
from launcher.model.plan import Plan
from launcher.rendering.role_policies import role_statements
from launcher.targets.registry import target_of
from launcher.workflow.doctor.examination import Examination, Subject
from launcher.workflow.doctor.rights import NO_ROLE, account_of, context_of, judge, one_of

_PODS = "pods.eks.amazonaws.com"


def groups(subject: Subject) -> Iterator[Check]:
    """Check each security group: it exists, is in the plan's VPC, and is open to itself if EFA needs that."""
    plan = subject.plan
    if plan is None or plan.request.target.cluster is not None:
        return
    facts = subject.catalog.instance_types[plan.place.instance_type]
    strict = target_of(plan.place.target).groups_name_themselves and facts.efa_interfaces > 0
    for name in plan.request.network.security_group_ids:
        requirement = f"{name} is in {plan.request.network.vpc_id}"
        requirement += " and allows all traffic from and to itself, which EFA needs" if strict else ""
        group = security_group(subject.session("ec2"), name)
        yield _check_group(plan, name, requirement, group, strict=strict)


def _check_group(plan: Plan, name: str, requirement: str, group: SecurityGroup | None, *, strict: bool) -> Check:
    """Compare one security group with the plan.

    HyperPod's EFA check fails if any of several groups lacks the rule (awsome-distributed-ai, pull request 259);
    a rule to 0.0.0.0/0 does not cover EFA.
    """
    title, region = "security group", plan.place.region
    if group is None:
        return failed_check(title, requirement, "no such group in the region", "use an existing group, or remove it")
    if group.vpc_id != plan.request.network.vpc_id:
        return failed_check(title, requirement, f"it belongs to {group.vpc_id}", "name groups of that VPC")
    directions = {"ingress": group.lets_itself_in, "egress": group.lets_itself_out}
    lacking = [direction for direction, works in directions.items() if strict and not works]
    if not lacking:
        return ok(title, requirement, "confirmed")
    rule = f"--region {region} --group-id {name} --ip-permissions 'IpProtocol=-1,UserIdGroupPairs=[{{GroupId={name}}}]'"
    fix = by_administrator(" && ".join(f"aws ec2 authorize-security-group-{direction} {rule}" for direction in lacking))
    return failed_check(
        title, requirement, f"it has no rule for {' and '.join(lacking)}: HyperPod's nodes would fail", fix
    )


def roles(subject: Subject) -> Iterator[Check]:
    """Each role: it exists, the right service may assume it, and IAM's simulation grants the needed permissions."""
    plan = subject.plan
    if plan is None:
        return
    for role in named_roles(plan.request, target_of(plan.place.target)):
        yield from _role(subject, plan, role)


def _role(subject: Subject, plan: Plan, role: NamedRole) -> Iterator[Check]:
    title, requirement = "role", f"{role.path} {role.name} exists, and {role.use.service} may assume it"
    if role.account != subject.account:
        yield failed_check(
            title,
            requirement,
            f"it is of account {role.account}, not of {subject.account}",
            "use a role of this account",
        )
        return
    try:
        _, services = account_roles.role(subject.session("iam"), role.name)
    except AwsError as problem:
        if error_code(problem) != NO_ROLE:
            raise
        yield failed_check(
            title,
            requirement,
            "no such role",
            "use an existing role, or remove the key: the stack then creates its own",
        )
        return
    if role.use.service in services:
        yield ok(title, requirement, "yes; conditions of its trust policy were not evaluated")
    else:
        got = f"its trust policy names {', '.join(sorted(services)) or 'no service'}"
        actions = ["sts:AssumeRole", *(["sts:TagSession"] if role.use.service == _PODS else [])]
        allow = {"Effect": "Allow", "Principal": {"Service": role.use.service}, "Action": actions}
        yield failed_check(title, requirement, got, f"add to its trust policy: {json.dumps(allow)}")
    yield _allows(subject, plan, role)


def _allows(subject: Subject, plan: Plan, role: NamedRole) -> Check:
    """Simulate the role's policies for the needed actions, on resource names like those of the stacks."""
    session, decisions = subject.session("iam"), list[Decision]()
    context = {ACCOUNT_KEY: plan.name} if role.use.service == _PODS else {}
    for right in role_statements(load_permissions(), plan.request, role, account_of(subject)):
        if right["Effect"] == "Allow":
            resources = one_of(right["Resource"], plan)
            known = {**context, **context_of(right)}
            decisions += simulate_permissions(session, role.arn, right["Action"], resources, known)
    return judge(subject, "role", f"{role.name} may do the {len(decisions)} things that {role.path} needs", decisions)


EXISTING = (
    Examination("security group", "the plan's own groups fit", groups),
    Examination("role", "the plan's own roles fit", roles),
)
"""Examinations of what a plan names in the account."""
