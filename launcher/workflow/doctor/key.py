"""The KMS key of a plan: whether it is usable in the plan's region, and which principals its key policy allows."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from launcher.aws.keys import ENABLED, default_volume_key, key, key_policy
from launcher.model.administrator import by_administrator
from launcher.model.diagnosis import Check, advice, failed_check, ok
from launcher.model.plan import Plan
from launcher.model.target import VolumeKey
from launcher.targets.registry import target_of
from launcher.workflow.doctor.examination import Examination, Subject

PAGE = "docs/security.md, A key of your own"
USE = ("kms:Encrypt", "kms:Decrypt", "kms:ReEncrypt*", "kms:GenerateDataKey*", "kms:DescribeKey")
"""The actions of CloudWatch Logs, EC2 Auto Scaling and PCS on a key (their user guides: encrypting log data,
required key policy for use with encrypted volumes)."""
PUBLISH = ("kms:Decrypt", "kms:GenerateDataKey*")
"""Actions of a publisher to an encrypted topic on its key (SNS developer guide, key management)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Needed:
    """A principal that needs access: `principals` are a service's name or an ARN in all notations.

    `why` is what fails without access. `fatal` says that a launch fails without it; `sid` names the statement in
    docs/security.md that grants it.
    """

    principals: tuple[str, ...]
    actions: tuple[str, ...]
    sid: str
    why: str
    fatal: bool = True


def lacking(policy: Mapping[str, Any], needed: Needed) -> tuple[str, ...]:
    """The actions that no statement allows, and those that a statement denies under any condition.

    A statement with `NotPrincipal` or `NotAction` counts as allowing nothing: its effect depends on the request.

    >>> root = {"Effect": "Allow", "Principal": {"AWS": "arn:aws:iam::123456789012:root"}, "Action": "kms:*"}
    >>> asked = Needed(principals=("logs.us-east-2.amazonaws.com",), actions=("kms:Encrypt",), sid="Logs", why="")
    >>> lacking({"Statement": [root]}, asked)
    ('kms:Encrypt',)
    """
    whom = {"*", *needed.principals}
    statements = [statement for statement in _statements(policy) if whom & _principals(statement)]
    allowed = [
        word
        for statement in statements
        if statement.get("Effect") == "Allow"
        for word in _as_list(statement.get("Action"))
    ]
    denied = [
        word
        for statement in statements
        if statement.get("Effect") == "Deny" and not statement.get("Condition")
        for word in _as_list(statement.get("Action"))
    ]
    return tuple(action for action in needed.actions if not _matches(action, allowed) or _matches(action, denied))


def _statements(policy: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    statements = policy.get("Statement", [])
    yield from (
        statement
        for statement in ([statements] if isinstance(statements, dict) else statements)
        if isinstance(statement, dict)
    )


def _principals(statement: Mapping[str, Any]) -> frozenset[str]:
    named = statement.get("Principal", {})
    if isinstance(named, str):
        return frozenset((named,))
    return frozenset(word for principals in named.values() for word in _as_list(principals))


def _as_list(given: Any) -> Sequence[str]:
    if given is None:
        return ()
    return (given,) if isinstance(given, str) else [str(word) for word in given]


def _matches(action: str, patterns: Sequence[str]) -> bool:
    """Whether a pattern covers an action; case is ignored, and an action may itself be a pattern."""
    return any(fnmatchcase(action.casefold(), pattern.casefold()) for pattern in patterns)


def usable(subject: Subject) -> Iterator[Check]:
    """Whether the plan's key exists, is enabled, and can encrypt."""
    arn = _key(subject.plan)
    if arn is None:
        return
    name, requirement = "key", f"storage.kms_key_arn {arn} is enabled and symmetric"
    state = key(subject.session("kms"), arn)
    if state is None:
        yield failed_check(name, requirement, "no such key in its region", "name one that exists: aws kms list-keys")
    elif state.state != ENABLED:
        call = "cancel-key-deletion" if state.state == "PendingDeletion" else "enable-key"
        fix = by_administrator(f"aws kms {call} --region {subject.region} --key-id {arn}")
        yield failed_check(name, requirement, f"it is {state.state}", fix)
    elif not state.encrypts:
        yield failed_check(
            name, requirement, f"it is {state.spec} for {state.usage}", "the services accept symmetric keys only"
        )
    else:
        yield ok(name, requirement, f"{state.state}, {state.spec}")


def lets_in(subject: Subject) -> Iterator[Check]:
    """Check that the policy of the plan's key allows the principals that use it without a role of the stacks."""
    plan, arn = subject.plan, _key(subject.plan)
    if plan is None or arn is None:
        return
    policy = key_policy(subject.session("kms"), arn)
    needed = _key_needs(subject, plan)
    for need in needed:
        missing = lacking(policy, need)
        requirement = f"the key's policy lets {need.principals[0]} use it"
        if not missing:
            yield ok("key policy", requirement, "a statement allows it; its conditions were not evaluated")
            continue
        got, fix = f"it lacks {', '.join(missing)}: {need.why}", f"add the statement {need.sid} ({PAGE})"
        yield (
            failed_check("key policy", requirement, got, fix)
            if need.fatal
            else advice("key policy", requirement, got, fix)
        )


def volumes(subject: Subject) -> Iterator[Check]:
    """The key that EBS uses for root volumes, if the target or the plan names none."""
    plan = subject.plan
    if plan is None or plan.request.target.cluster is not None:
        return
    row, arn = target_of(plan.place.target), _key(plan)
    if row.volume_key is VolumeKey.SERVICE or (row.volume_key is VolumeKey.NAMED and arn is not None):
        return
    default = default_volume_key(subject.session("ec2"))
    name, requirement = "volume key", f"the key of root volumes in {subject.region}"
    reset = by_administrator(f"aws ec2 reset-ebs-default-kms-key-id --region {subject.region}")
    if default is None and arn is None:
        yield ok(name, requirement, "the key that AWS manages for EBS")
    elif default is None or (arn is not None and default == arn):
        yield from _own_default(subject, row.title, arn, default)
    elif row.volume_key is VolumeKey.NAMED:
        yield from _started_with(subject, row.starts_volumes, default, requirement)
    else:
        got = f"{default}, which the roles of the cluster may not use: its nodes would not start"
        yield failed_check(name, requirement, got, f'storage: {{kms_key_arn: "{default}"}}, or {reset}')


def _own_default(subject: Subject, title: str, arn: str | None, default: str | None) -> Iterator[Check]:
    name, requirement = "volume key", f"root volumes are encrypted with {arn}"
    if default == arn:
        yield ok(name, requirement, "it is EBS's default in the region")
        return
    fix = f"aws ec2 modify-ebs-default-kms-key-id --region {subject.region} --kms-key-id {arn}"
    got = f"{title} names no key for them: they get the key that AWS manages for EBS"
    yield advice(name, requirement, got, by_administrator(fix, "it applies to all volumes in the region without a key"))


def _started_with(subject: Subject, role: str, default: str, requirement: str) -> Iterator[Check]:
    """Check the account's own EBS default key, with which node groups start their volumes."""
    policy, name = key_policy(subject.session("kms"), default), role.partition("/")[2]
    missing = [word for starter in _starters(subject, role) for word in lacking(policy, starter)]
    if missing:
        got = f"{default}, whose policy lacks {', '.join(missing)} for {name}: nodes would not start"
        yield failed_check("volume key", requirement, got, f"add the statements Volumes and VolumeGrants ({PAGE})")
    else:
        yield ok("volume key", requirement, f"{default}, which {name} may use")


def _key_needs(subject: Subject, plan: Plan) -> list[Needed]:
    partition, account = subject.caller.partition, subject.account
    suffix = "amazonaws.com.cn" if partition == "aws-cn" else "amazonaws.com"
    needs = [
        Needed(
            principals=(f"arn:{partition}:iam::{account}:root", account),
            actions=("kms:Decrypt", "kms:GenerateDataKey", "kms:CreateGrant", "kms:DescribeKey"),
            sid="Account",
            why="the key would not allow the roles of the stacks, which do not exist yet, by their own policies",
        ),
        Needed(
            principals=(f"logs.{subject.region}.{suffix}",),
            actions=USE,
            sid="Logs",
            why="no log group can be created",
        ),
        Needed(
            principals=("cloudwatch.amazonaws.com",),
            actions=PUBLISH,
            sid="Alarms",
            why="alarm notifications would be lost without an error",
            fatal=False,
        ),
    ]
    if plan.request.budget.max_usd is not None:
        needs.append(
            Needed(
                principals=("budgets.amazonaws.com",),
                actions=PUBLISH,
                sid="Alarms",
                why="budget notifications would be lost without an error",
                fatal=False,
            )
        )
    row = target_of(plan.place.target)
    return [*needs, *(_starters(subject, row.starts_volumes) if row.starts_volumes else ())]


def _starters(subject: Subject, name: str) -> tuple[Needed, Needed]:
    """The service-linked role that starts instances of node groups; it has no access to any key by default."""
    role = f"arn:{subject.caller.partition}:iam::{subject.account}:role/aws-service-role/{name}"
    why = "nodes would not start"
    return (
        Needed(principals=(role,), actions=USE, sid="Volumes", why=why),
        Needed(principals=(role,), actions=("kms:CreateGrant",), sid="VolumeGrants", why=why),
    )


def _key(plan: Plan | None) -> str | None:
    """The plan's key, if the plan creates something that it encrypts."""
    if plan is None or plan.request.target.cluster is not None:
        return None
    return plan.request.storage.kms_key_arn


KEYS = (
    Examination("key", "the plan's key can be used", usable),
    Examination("key policy", "the key's policy allows the services", lets_in),
    Examination("volume key", "the key of root volumes", volumes),
)
"""The checks of encryption keys."""
