"""The plan's own key on what the services would encrypt with theirs: every log group and topic of its stacks."""

from collections.abc import Iterable

from aws_cdk import aws_logs as logs
from aws_cdk import aws_sns as sns
from constructs import IConstruct


def encrypt(scopes: Iterable[IConstruct], key_arn: str) -> None:
    """Put a key on the log groups and topics of stacks that are built.

    Its policy has to let CloudWatch Logs, and those that publish to the topic (CloudWatch's alarms, AWS Budgets), use
    it: docs/security.md has the statement. Buckets, volumes and file systems get it where they are made.
    """
    for construct in (child for scope in scopes for child in scope.node.find_all()):
        if isinstance(construct, logs.CfnLogGroup):
            construct.kms_key_id = key_arn
        elif isinstance(construct, sns.CfnTopic):
            construct.kms_master_key_id = key_arn
