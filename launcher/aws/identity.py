"""The caller's identity, and the permissions of a principal as IAM simulates them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from launcher.aws.calls import items
from launcher.aws.session import Session, translate_errors

MAX_ACTIONS = 50
"""Actions per simulation: a page of the response holds at most 100 results (IAM API reference)."""
_LISTS = frozenset(("aws:CalledVia", "aws:TagKeys", "dynamodb:LeadingKeys"))
"""Condition keys of several values (IAM user guide, global condition keys)."""
_SSO_ROLE = "AWSReservedSSO_"
"""Prefix of the roles of IAM Identity Center; their sessions have the user's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The principal behind the credentials: its account, and its ARN as STS gives it."""

    account: str
    arn: str

    @property
    def partition(self) -> str:
        """The partition of its account, such as "aws" or "aws-us-gov"."""
        return self.arn.split(":")[1]

    @property
    def role(self) -> str | None:
        """The name of the assumed role; None for a user or the account's root."""
        kind, _, rest = self.arn.split(":", 5)[5].partition("/")
        return rest.rpartition("/")[0].rpartition("/")[2] if kind == "assumed-role" else None

    @property
    def person(self) -> str | None:
        """The name of an IAM or Identity Center user; None for the root and for roles that several users may share.

        >>> Caller(account="1", arn="arn:aws:sts::1:assumed-role/AWSReservedSSO_ml_0a/ana@example.com").person
        'ana@example.com'
        >>> Caller(account="1", arn="arn:aws:sts::1:assumed-role/ci/GitHubActions").person is None
        True
        """
        kind, _, rest = self.arn.split(":", 5)[5].partition("/")
        return rest.rpartition("/")[2] if kind == "user" or (self.role or "").startswith(_SSO_ROLE) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """IAM's decision on one action: allowed; or denied, and whether the simulation lacks context of a real call."""

    action: str
    allowed: bool
    by_organization: bool
    by_boundary: bool
    missing: tuple[str, ...]


def caller(session: Session) -> Caller:
    """The principal of the session's credentials."""
    with translate_errors("get the identity of the credentials"):
        answer = session.client("sts").get_caller_identity()
    return Caller(account=str(answer["Account"]), arn=str(answer["Arn"]))


def role_arn(session: Session, name: str) -> str:
    """The ARN of an account's role with its path, which the ARN of the role's sessions omits."""
    with translate_errors(f"look up role {name}"):
        return str(session.client("iam").get_role(RoleName=name)["Role"]["Arn"])


def simulate_permissions(
    session: Session,
    principal: str,
    actions: Sequence[str],
    resources: Sequence[str] = ("*",),
    context: Mapping[str, str] | None = None,
) -> tuple[Decision, ...]:
    """The permissions of a principal, action by action; no action is performed.

    Args:
        session: the AWS session.
        principal: the ARN of a user or a role, not of a role's session.
        actions: actions on one kind of resource: a simulation of several kinds together is misleading.
        resources: the ARNs on which each action is simulated.
        context: values of condition keys, as in a real call.

    Raises:
        AwsError: the simulation is not allowed, or failed.
    """
    entries = [
        {
            "ContextKeyName": key,
            "ContextKeyValues": [value],
            "ContextKeyType": "stringList" if key in _LISTS else "string",
        }
        for key, value in (context or {}).items()
    ]
    decisions: list[Decision] = []
    for start in range(0, len(actions), MAX_ACTIONS):
        results = items(
            session.client("iam").simulate_principal_policy,
            f"simulate what {principal} may do",
            "EvaluationResults",
            PolicySourceArn=principal,
            ActionNames=list(actions[start : start + MAX_ACTIONS]),
            ResourceArns=list(resources),
            **({"ContextEntries": entries} if entries else {}),
        )
        decisions += map(_decision, results)
    return tuple(decisions)


def _decision(raw: Mapping[str, Any]) -> Decision:
    organization, boundary = (
        raw.get("OrganizationsDecisionDetail", {}),
        raw.get("PermissionsBoundaryDecisionDetail", {}),
    )
    return Decision(
        action=str(raw["EvalActionName"]),
        allowed=raw["EvalDecision"] == "allowed",
        by_organization=organization.get("AllowedByOrganizations") is False,
        by_boundary=boundary.get("AllowedByPermissionsBoundary") is False,
        # Where a request names resources, IAM lists the lacking keys by resource (IAM API reference, EvaluationResult).
        missing=tuple(
            dict.fromkeys(
                key
                for part in (raw, *raw.get("ResourceSpecificResults", ()))
                for key in part.get("MissingContextValues", ())
            )
        ),
    )
