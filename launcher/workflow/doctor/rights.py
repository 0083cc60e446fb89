"""What the caller may do, as IAM itself simulates it: assume the CDK's roles, and make a launch's own calls."""

from collections.abc import Iterator, Sequence

from launcher.aws import bootstrap
from launcher.aws.identity import Decision, role_arn, simulated
from launcher.model.diagnosis import Check, failed, ok, unknown
from launcher.workflow.doctor.examination import Examination, Subject

ASSUME = "sts:AssumeRole"
CDK_ROLES = ("deploy", "file-publishing")
"""Roles of the bootstrap stack that `cdk deploy` assumes for every stack with file assets."""
OWN_CALLS = (
    "cloudformation:DescribeStackEvents",
    "cloudformation:DescribeStacks",
    "cloudformation:ListStackResources",
    "ec2:DescribeInstances",
    "ec2:DescribeSubnets",
    "iam:GetRole",
    "logs:DescribeLogGroups",
    "s3:ListBucket",
)
"""Calls that a launch makes itself, before and after the CDK has deployed."""


def own_rights(subject: Subject) -> Iterator[Check]:
    """The caller's: the roles that it may take, and its own calls."""
    session, me = subject.session("iam"), subject.caller
    principal = role_arn(session, me.role) if me.role is not None else me.arn
    qualifier = subject.plan.request.security.qualifier if subject.plan is not None else None
    names = [bootstrap.role_name(qualifier, each, me.account, subject.region) for each in CDK_ROLES]
    roles = [f"arn:{me.partition}:iam::{me.account}:role/{each}" for each in names]
    asked = f"{principal} may assume {', '.join(names)}"
    yield _judged("rights", asked, simulated(session, principal, [ASSUME], roles))
    yield _judged("rights", f"{principal} may make a launch's own calls", simulated(session, principal, OWN_CALLS))


def _judged(name: str, asked: str, decisions: Sequence[Decision]) -> Check:
    """One check of several decisions: a denial that lacks context of the real call is not known, not a failure."""
    denied = [each for each in decisions if not each.allowed]
    if not denied:
        return ok(name, asked, "IAM allows it")
    certain = [each for each in denied if not each.missing]
    shown = ", ".join(dict.fromkeys(each.action for each in certain or denied))
    if not certain:
        lacking = ", ".join(sorted({key for each in denied for key in each.missing}))
        return unknown(name, asked, f"{shown}: depends on {lacking}, which a simulation does not have")
    why = "an organization's policy" if any(each.by_organization for each in certain) else ""
    why = why or ("the permissions boundary" if any(each.by_boundary for each in certain) else "no policy allows it")
    return failed(name, asked, f"denied: {shown} ({why})", "docs/deployer-policy.md has the policies")


RIGHTS = (Examination("rights", "the caller may deploy and follow", own_rights),)
