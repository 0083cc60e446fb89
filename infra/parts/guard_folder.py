"""A guard's own folder in the store: messages that jobs leave for users, and marks of sent notifications."""

from typing import NamedTuple

from aws_cdk import Aws, Fn
from aws_cdk import aws_iam as iam

from infra.parts.node_policy import StoreAccess
from launcher.model.monitoring import GUARD_FOLDER, MESSAGE_FOLDER


class GuardFolder(NamedTuple):
    """The folder of one guard: its URI, and its bucket, prefix and objects for a policy."""

    uri: str
    bucket_arn: str
    prefix: str
    objects_arn: str

    @property
    def message_uri(self) -> str:
        """The URI of the jobs' messages."""
        return f"{self.uri}/{MESSAGE_FOLDER}"

    @property
    def statements(self) -> tuple[iam.PolicyStatement, ...]:
        """The guard's permissions in its folder (templates/guard/job_messages.py)."""
        return (
            iam.PolicyStatement(
                sid="ListMessages",
                actions=["s3:ListBucket"],
                resources=[self.bucket_arn],
                conditions={"StringLike": {"s3:prefix": [f"{self.prefix}/*"]}},
            ),
            iam.PolicyStatement(
                sid="MoveMessages",
                actions=["s3:DeleteObject", "s3:GetObject", "s3:PutObject"],
                resources=[self.objects_arn],
            ),
        )


def guard_folder(store_uri: str, store: StoreAccess) -> GuardFolder:
    """The folder of a stack's guard; a recreated stack of the same name has another folder."""
    folder = f"{GUARD_FOLDER}/{Fn.select(2, Fn.split('/', Aws.STACK_ID))}"
    return GuardFolder(
        uri=f"{store_uri.rstrip('/')}/{folder}",
        bucket_arn=store.bucket_arn,
        prefix=f"{store.prefix}/{folder}" if store.prefix else folder,
        objects_arn=store.objects(folder),
    )
