"""Roles and policies as IAM describes them."""

from typing import Any
from urllib.parse import unquote

from launcher.agent import safe_json
from launcher.aws.calls import items
from launcher.aws.session import Session, translate_errors


def role(session: Session, name: str) -> tuple[str | None, frozenset[str]]:
    """The ARN of a role's permissions boundary, and the services that may assume the role."""
    with translate_errors(f"describe role {name}"):
        description = session.client("iam").get_role(RoleName=name)["Role"]
    trusted = [
        statement.get("Principal", {}).get("Service", [])
        for statement in _parse_document(description["AssumeRolePolicyDocument"])["Statement"]
    ]
    return description.get("PermissionsBoundary", {}).get("PermissionsBoundaryArn"), frozenset(
        service for services in trusted for service in ([services] if isinstance(services, str) else map(str, services))
    )


def rights(session: Session, name: str) -> tuple[dict[str, Any], ...]:
    """The statements of all policies of a role, attached or inline.

    Raises:
        AwsError: the role does not exist, or a call failed.
    """
    client = session.client("iam")
    own = attached_policies(session, name)
    with translate_errors(f"list policies of role {name}"):
        inline_names = client.list_role_policies(RoleName=name)["PolicyNames"]
        inline = [
            client.get_role_policy(RoleName=name, PolicyName=policy_name)["PolicyDocument"]
            for policy_name in inline_names
        ]
    others = (policy_statement for arn in own for policy_statement in policy_statements(session, arn))
    return (
        *others,
        *(inline_statement for statements in inline for inline_statement in _parse_document(statements)["Statement"]),
    )


def attached_policies(session: Session, name: str) -> tuple[str, ...]:
    """The ARNs of the managed policies of a role.

    Raises:
        AwsError: the role does not exist, or the call failed.
    """
    call, subject = session.client("iam").list_attached_role_policies, f"list the policies of role {name}"
    return tuple(str(policy["PolicyArn"]) for policy in items(call, subject, "AttachedPolicies", RoleName=name))


def policy_statements(session: Session, arn: str) -> tuple[dict[str, Any], ...]:
    """The statements of a managed policy's default version."""
    client = session.client("iam")
    with translate_errors(f"describe policy {arn}"):
        version = client.get_policy(PolicyArn=arn)["Policy"]["DefaultVersionId"]
        document = client.get_policy_version(PolicyArn=arn, VersionId=version)["PolicyVersion"]["Document"]
    return tuple(_parse_document(document)["Statement"])


def _parse_document(document: Any) -> dict[str, Any]:
    """A policy document, which botocore returns parsed or as IAM sent it."""
    with translate_errors("read a policy document"):
        return dict(safe_json.loads(unquote(document)) if isinstance(document, str) else document)
