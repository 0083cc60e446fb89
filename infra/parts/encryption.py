"""Encrypts every log group and topic of a plan's stacks with the plan's key instead of the services' own keys."""

from collections.abc import Iterable

from aws_cdk import aws_logs as logs
from aws_cdk import aws_sns as sns
from constructs import IConstruct


def encrypt(scopes: Iterable[IConstruct], key_arn: str) -> None:
    """Set a key on the log groups and topics of complete stacks.

    The key's policy must allow CloudWatch Logs and the topic's publishers (CloudWatch alarms, AWS Budgets) to use the
    key: docs/security.md has the statement. Buckets, volumes and file systems get the key at their definition.
    """
    for construct in (child for scope in scopes for child in scope.node.find_all()):
        if isinstance(construct, logs.CfnLogGroup):
            construct.kms_key_id = key_arn
        elif isinstance(construct, sns.CfnTopic):
            construct.kms_master_key_id = key_arn
