"""What the caller and CloudFormation's role may do, as IAM itself simulates it; nothing is done."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from launcher.aws import bootstrap
from launcher.aws.identity import Decision, role_arn, simulated
from launcher.catalog.permissions import load_permissions
from launcher.model.diagnosis import Check, advice, failed, ok, unknown
from launcher.model.kubernetes import ACCOUNT_KEY
from launcher.model.named_role import named_roles
from launcher.model.plan import Plan
from launcher.model.request import DEFAULT_QUALIFIER
from launcher.model.target import target_of
from launcher.rendering.policies import PERSON, TARGET_POLICIES, Account, allowed_actions
from launcher.workflow.doctor.examination import Examination, Subject

ASSUME = "sts:AssumeRole"
CDK_ROLES = ("deploy", "file-publishing")
"""Roles of the bootstrap stack that `cdk deploy` assumes for every stack with file assets."""
EVERYTHING = ("*",)
UNNEEDED = "iam:CreateUser"
"""What no stack of Slipway's does: a role that may is an administrator."""
MOST_NAMED = 6


def own_rights(subject: Subject) -> Iterator[Check]:
    """The caller's: the roles that it may take, and the calls that it makes itself, where no resource limits them."""
    session, me = subject.session("iam"), subject.caller
    principal = role_arn(session, me.role) if me.role is not None else me.arn
    account = account_of(subject)
    names = [bootstrap.role_name(account.qualifier, each, me.account, subject.region) for each in CDK_ROLES]
    roles = [f"arn:{me.partition}:iam::{me.account}:role/{each}" for each in names]
    asked = f"{principal} may assume {', '.join(names)}"
    yield judged(subject, "rights", asked, simulated(session, principal, [ASSUME], roles))
    for actions, resources in allowed_actions(load_permissions(), PERSON, account):
        if resources == EVERYTHING:
            asked = f"{principal} may make the {len(actions)} calls of a launch that name no resource"
            yield judged(subject, "rights", asked, simulated(session, principal, actions))


def execution_role(subject: Subject) -> Iterator[Check]:
    """CloudFormation's: every action of the handlers of the plan's resource types, on names such as they will have."""
    plan = subject.plan
    if plan is None or plan.place.target not in TARGET_POLICIES or plan.request.target.cluster is not None:
        return
    session, account = subject.session("iam"), account_of(subject)
    name = bootstrap.role_name(account.qualifier, "cfn-exec", account.id, subject.region)
    principal = role_arn(session, name)
    (administrator,) = simulated(session, principal, [UNNEEDED])
    if administrator.allowed:
        got = "it is an administrator: the bootstrap was given no policies"
        fix = f"{subject.policies_command} writes narrower ones and prints the bootstrap command"
        yield advice("execution role", f"{name} may do what the stacks need and no more", got, fix)
        return
    named = named_roles(plan.request, target_of(plan.place.target))
    account = replace(account, lists={"roles": tuple(each.arn for each in named)})
    decisions: list[Decision] = []
    for policy in TARGET_POLICIES[plan.place.target]:
        for actions, patterns in allowed_actions(load_permissions(), policy, account):
            decisions += simulated(session, principal, actions, one_of(patterns, plan))
    asked = f"{name} may do the {len(decisions)} things that the stacks of this target need"
    yield judged(subject, "execution role", asked, decisions)


def one_of(patterns: Sequence[str], plan: Plan) -> list[str]:
    """A resource such as a statement is for: the first of its patterns, under a name as the plan's stacks give them."""
    named = (each.replace(f"${{{ACCOUNT_KEY}}}", plan.name) for each in patterns)
    return [each if each == "*" else each.replace("*", plan.cluster_name) for each in named][:1]


def account_of(subject: Subject) -> Account:
    """The account as policies are written for it."""
    security = subject.plan.request.security if subject.plan is not None else None
    return Account(
        id=subject.account,
        partition=subject.caller.partition,
        qualifier=(security.qualifier if security is not None else None) or DEFAULT_QUALIFIER,
        boundary_arn=security.permissions_boundary_arn if security is not None else None,
    )


def judged(subject: Subject, name: str, asked: str, decisions: Sequence[Decision]) -> Check:
    """One check of several decisions: a denial that lacks context of the real call is not known, not a failure."""
    denied = [each for each in decisions if not each.allowed]
    if not denied:
        return ok(name, asked, "IAM allows it")
    certain = [each for each in denied if not each.missing]
    actions = list(dict.fromkeys(each.action for each in certain or denied))
    shown = ", ".join(actions[:MOST_NAMED])
    if len(actions) > MOST_NAMED:
        shown += f" and {len(actions) - MOST_NAMED} more"
    if not certain:
        lacking = ", ".join(sorted({key for each in denied for key in each.missing}))
        return unknown(name, asked, f"{shown}: depends on {lacking}, which a simulation does not have")
    why = "an organization's policy" if any(each.by_organization for each in certain) else ""
    why = why or ("the permissions boundary" if any(each.by_boundary for each in certain) else "no policy allows it")
    return failed(name, asked, f"denied: {shown} ({why})", f"{subject.policies_command} writes the policies")


RIGHTS = (
    Examination("rights", "the caller may deploy and follow", own_rights),
    Examination("execution role", "CloudFormation may make what the stacks need", execution_role),
)
