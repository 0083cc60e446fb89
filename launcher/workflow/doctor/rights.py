"""Permissions of the caller, CloudFormation's role and a deployed guard, simulated by IAM; nothing is executed."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from launcher.aws import bootstrap, buckets, roles, stacks
from launcher.aws.identity import Decision, role_arn, simulate_permissions
from launcher.aws.keys import key_policy
from launcher.aws.session import error_code
from launcher.catalog.permissions import load_permissions
from launcher.model.administrator import by_administrator
from launcher.model.diagnosis import Check, Outcome, advice, failed_check, ok, unknown
from launcher.model.errors import AwsError
from launcher.model.kubernetes import ACCOUNT_KEY
from launcher.model.named_role import named_roles
from launcher.model.plan import Plan
from launcher.model.request import DEFAULT_QUALIFIER, OWN_QUALIFIER
from launcher.rendering import role_policies
from launcher.rendering.names import SERVING_STACK, TRAINING_STACK, stack_name
from launcher.rendering.policies import (
    MAX_POLICIES,
    PERSON,
    TARGET_POLICIES,
    PolicyAccount,
    allowed_actions,
    bootstrap_command,
    rendered_statements,
)
from launcher.targets.registry import target_of
from launcher.workflow.doctor.examination import Examination, Subject
from launcher.workflow.doctor.key import Needed, lacking
from launcher.workflow.doctor.running_costs import guard_function

NO_ROLE = "NoSuchEntity"
"""IAM's error code for a role that does not exist."""
CDK_ROLES = ("deploy", "file-publishing")
"""The bootstrap stack's roles that `cdk deploy` assumes for every stack with file assets."""
EVERYTHING = ("*",)
UNNEEDED = "iam:CreateUser"
"""An action that no Slipway stack uses: a role with this permission is an administrator."""
MAX_NAMED = 6
SHIPS = ("s3:GetObject", "s3:PutObject")
"""Actions of a launch on objects with the caller's credentials: it ships code and job files, and reads logs."""
USES = ("kms:Decrypt", "kms:GenerateDataKey")


def own_rights(subject: Subject) -> Iterator[Check]:
    """Check the caller: the roles that it may assume, and its own calls that no resource limits."""
    session, me = subject.session("iam"), subject.caller
    principal, account = principal_of(subject), account_of(subject)
    names = [bootstrap.role_name(account.qualifier, role, me.account, subject.region) for role in CDK_ROLES]
    roles = [f"arn:{me.partition}:iam::{me.account}:role/{name}" for name in names]
    requirement = f"{principal} may assume {', '.join(names)}"
    yield judge(subject, "rights", requirement, simulate_permissions(session, principal, ["sts:AssumeRole"], roles))
    for actions, resources in allowed_actions(load_permissions(), PERSON, account):
        # Calls on named resources are judged with the resources: the store and its key below.
        if resources == EVERYTHING:
            requirement = f"{principal} may make the {len(actions)} calls of a launch without a resource"
            yield judge(subject, "rights", requirement, simulate_permissions(session, principal, actions))


def store_rights(subject: Subject) -> Iterator[Check]:
    """Check the caller's access to the store of a launch, and to the key that encrypts the store."""
    plan = subject.plan
    uri = plan.request.checkpoint.store_uri if plan is not None else None
    if plan is None or (uri is None and plan.request.target.cluster is not None):
        return
    session, principal = subject.session("iam", "s3", "kms"), principal_of(subject)
    lists = role_policies.account_of(plan.request, account_of(subject)).lists
    store, objects = one_of(lists["store"], plan), one_of(lists["objects"], plan)
    bucket = store[0].rpartition(":")[2]
    decisions = (
        *simulate_permissions(session, principal, ["s3:ListBucket"], store),
        *simulate_permissions(session, principal, SHIPS, objects),
    )
    requirement = f"{principal} may ship jobs to {uri or bucket} and read there"
    policy = (lambda: buckets.policy_of(session, bucket)) if uri is not None else dict[str, Any]
    yield _unless_let_in(subject, judge(subject, "store", requirement, decisions), (*SHIPS, "s3:ListBucket"), policy)
    named = plan.request.storage.kms_key_arn if plan.request.target.cluster is None else None
    key = named if uri is None else buckets.default_key(session, bucket)
    # Without a key of the user's, S3 encrypts with one that needs no permission.
    if key is None or ":key/" not in key:
        return
    suffix = "amazonaws.com.cn" if subject.caller.partition == "aws-cn" else "amazonaws.com"
    through = {"kms:ViaService": f"s3.{subject.region}.{suffix}"}
    fix = "" if key == named else f"allow {' and '.join(USES)} on it: it is the default key of {bucket}"
    requirement = f"{principal} may use {key} through S3"
    check = judge(
        subject, "store key", requirement, simulate_permissions(session, principal, USES, [key], through), fix=fix
    )
    yield _unless_let_in(subject, check, USES, lambda: key_policy(session, key))


def _unless_let_in(
    subject: Subject, check: Check, actions: Sequence[str], policy: Callable[[], Mapping[str, Any]]
) -> Check:
    """A denial by IAM policies counts unless the bucket's or the key's own policy names the caller."""
    if check.result is not Outcome.FAILED:
        return check
    me = (principal_of(subject), subject.caller.arn)
    try:
        missing = lacking(policy(), Needed(principals=me, actions=tuple(actions), sid="", why=""))
    except AwsError as problem:
        return unknown(check.name, check.asked, f"{check.got}; its own policy was not read ({problem.message})")
    if missing:
        return check
    return ok(check.name, check.asked, "its own policy names the caller; conditions were not evaluated")


def kubernetes_access(subject: Subject) -> Iterator[Check]:
    """Check that the plan allows the caller to submit jobs to its cluster."""
    plan = subject.plan
    if plan is None or not plan.request.security.kubernetes_access or plan.request.target.cluster is not None:
        return
    me = principal_of(subject)
    requirement = f"security.kubernetes_access allows {me} to submit jobs to the cluster"
    if me in plan.request.security.kubernetes_access:
        yield ok("kubernetes access", requirement, "it is listed")
    else:
        yield advice(
            "kubernetes access",
            requirement,
            "it is not listed: the cluster would refuse a launch from here",
            f"add {me}",
        )


def execution_role(subject: Subject) -> Iterator[Check]:
    """Check CloudFormation's role: every action for the plan's resource types, on names like those of the stacks."""
    plan = subject.plan
    if plan is None or plan.place.target not in TARGET_POLICIES or plan.request.target.cluster is not None:
        return
    session, account = subject.session("iam"), account_of(subject)
    name = bootstrap.role_name(account.qualifier, "cfn-exec", account.id, subject.region)
    try:
        principal = role_arn(session, name)
    except AwsError as problem:
        if error_code(problem) != NO_ROLE:
            raise
        requirement = f"{name} has the permissions that the stacks of {plan.place.target.value} need"
        yield unknown("execution role", requirement, "no such role: the bootstrap above creates it")
        return
    # The default bootstrap gives CloudFormation every permission: then no list can be compared.
    (administrator,) = simulate_permissions(session, principal, [UNNEEDED])
    if administrator.allowed:
        got = "it is an administrator: the bootstrap has no custom policies"
        fix = f"{subject.policies_command} writes narrower ones and prints the bootstrap command"
        yield advice("execution role", f"{name} has only the permissions that the stacks need", got, fix)
        return
    named = named_roles(plan.request, target_of(plan.place.target))
    account = replace(account, lists={"roles": tuple(role.arn for role in named)})
    policies = TARGET_POLICIES[plan.place.target]
    decisions: list[Decision] = []
    for policy in policies:
        for right in rendered_statements(load_permissions(), policy, account):
            resources = one_of(as_list(right["Resource"]), plan)
            decisions += simulate_permissions(session, principal, right["Action"], resources, context_of(right))
    requirement = f"{name} may do the {len(decisions)} things that the stacks of {plan.place.target.value} need"
    check = judge(subject, "execution role", requirement, decisions)
    if check.result is Outcome.FAILED:
        check = replace(check, fix=_bootstrap_fix(subject, roles.attached_policies(session, name), account, policies))
    yield check


def _bootstrap_fix(subject: Subject, attached: Sequence[str], account: PolicyAccount, policies: Sequence[str]) -> str:
    """The command that gives CloudFormation's role what it lacks and keeps what it has: the CDK replaces the list."""
    needed = [account.policy_arn(policy) for policy in policies]
    missing = [arn for arn in needed if arn not in attached]
    if not missing:
        return (
            f"{subject.policies_command} writes the policies again; then, for each that changed: "
            + by_administrator(
                "aws iam create-policy-version --policy-arn ARN --policy-document file://FILE --set-as-default"
            )
        )
    lacks = ", ".join(arn.rpartition("/")[2] for arn in missing)
    first = f"{subject.policies_command} writes the policies first"
    # IAM attaches a limited number of policies: a bootstrap of its own leaves the others alone.
    if len(attached) + len(missing) > MAX_POLICIES:
        account = replace(account, qualifier=OWN_QUALIFIER)
        command = bootstrap_command(account, subject.region, needed, qualified=True)
        return by_administrator(
            command,
            f"the role lacks {lacks} and has {len(attached)} of {MAX_POLICIES} policies; {first}, and the plan"
            f" names this bootstrap: security: {{qualifier: {OWN_QUALIFIER}}}",
        )
    qualified = account.qualifier != DEFAULT_QUALIFIER
    command = bootstrap_command(account, subject.region, [*attached, *missing], qualified=qualified)
    return by_administrator(command, f"the role lacks {lacks}; the command keeps the policies that it has; {first}")


def context_of(right: Mapping[str, Any]) -> Mapping[str, str]:
    """Values with which the conditions of a statement hold."""
    conditions = {key: value for test in right.get("Condition", {}).values() for key, value in test.items()}
    return {key: as_list(value)[0] for key, value in conditions.items()}


def guard_rights(subject: Subject) -> Iterator[Check]:
    """The guard's role, if its stack exists: the actions of its policies, under its boundary and organization."""
    plan = subject.plan
    if plan is None or plan.request.target.cluster is not None:
        return
    session = subject.session("cloudformation", "lambda", "iam")
    names = (stack_name(plan, part) for part in (TRAINING_STACK, SERVING_STACK))
    name = next((stack for stack in names if stacks.find(session, stack) is not None), None)
    guard = None if name is None else guard_function(session, name)
    if guard is None:
        return
    decisions: list[Decision] = []
    for right in roles.rights(session, guard.role_arn.rpartition("/")[2]):
        decisions += simulate_permissions(
            session, guard.role_arn, as_list(right["Action"]), as_list(right["Resource"])[:1], context_of(right)
        )
    requirement = (
        f"the guard of {plan.cluster_name} may make the {len(decisions)} calls that stop nodes and send notifications"
    )
    fix = "allow these calls in the boundary or the organization's policy, then slipway deploy FILE"
    yield judge(subject, "guard", requirement, decisions, fix=fix)


def principal_of(subject: Subject) -> str:
    """The user or role of the credentials, in the form that IAM simulates."""
    me = subject.caller
    return role_arn(subject.session("iam"), me.role) if me.role is not None else me.arn


def as_list(value: str | Sequence[str]) -> list[str]:
    """One or several words of a policy, as a list.

    >>> as_list("s3:GetObject")
    ['s3:GetObject']
    """
    return [value] if isinstance(value, str) else list(value)


def one_of(patterns: Sequence[str], plan: Plan) -> list[str]:
    """A resource of a statement: the first of its patterns, with a name like those of the plan's stacks."""
    named = (pattern.replace(f"${{{ACCOUNT_KEY}}}", plan.name) for pattern in patterns)
    return [resource if resource == "*" else resource.replace("*", plan.cluster_name) for resource in named][:1]


def account_of(subject: Subject) -> PolicyAccount:
    """The account in the form that policies use."""
    security = subject.plan.request.security if subject.plan is not None else None
    return PolicyAccount(
        id=subject.account,
        partition=subject.caller.partition,
        qualifier=(security.qualifier if security is not None else None) or DEFAULT_QUALIFIER,
        boundary_arn=security.permissions_boundary_arn if security is not None else None,
    )


def judge(subject: Subject, name: str, requirement: str, decisions: Sequence[Decision], *, fix: str = "") -> Check:
    """One check of several decisions: a denial that depends on context of the real call is unknown, not failed."""
    denied = [decision for decision in decisions if not decision.allowed]
    if not denied:
        return ok(name, requirement, "IAM allows it")
    # A denial that lacks context of the real call may be none.
    certain = [decision for decision in denied if not decision.missing]
    actions = list(dict.fromkeys(decision.action for decision in certain or denied))
    shown = ", ".join(actions[:MAX_NAMED])
    if len(actions) > MAX_NAMED:
        shown += f" and {len(actions) - MAX_NAMED} more"
    if not certain:
        lacking = ", ".join(sorted({key for decision in denied for key in decision.missing}))
        return unknown(
            name, requirement, f"{shown}: depends on {lacking}, which the policy simulator does not evaluate"
        )
    why = "an organization's policy" if any(decision.by_organization for decision in certain) else ""
    why = why or (
        "the permissions boundary" if any(decision.by_boundary for decision in certain) else "no policy allows it"
    )
    fix = fix or f"{subject.policies_command} writes the policies"
    return failed_check(name, requirement, f"denied: {shown} ({why})", fix)


STORE = Examination("store", "the caller may ship jobs", store_rights)
RIGHTS = (
    Examination("rights", "the caller may deploy and follow", own_rights),
    STORE,
    Examination("kubernetes access", "the caller may submit jobs to the cluster", kubernetes_access),
    Examination("execution role", "CloudFormation has the permissions that the stacks need", execution_role),
    Examination("guard", "the guard of a deployed cluster may stop it and notify", guard_rights),
)
