"""The bucket of checkpoints, for the stacks of other apps."""

from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from infra.stacks import checkpoints
from launcher.model.monitoring import JOBS_PREFIX
from slipway_aws.flags import own_flags


class CheckpointStore(Construct):
    """A private, encrypted bucket for the checkpoints of clusters; CloudFormation retains it when its stack goes.

    Attributes:
        bucket: the bucket, for `SlipwayCluster(checkpoint_bucket=...)`.
    """

    def __init__(
        self, scope: Construct, id_: str, *, encryption_key: kms.IKey | None = None, access_log: bool = False
    ) -> None:
        """Create the bucket.

        Args:
            scope: the parent.
            id_: the id within the parent.
            encryption_key: the key of its objects; None: S3's own key.
            access_log: log each request, in a second bucket.
        """
        super().__init__(scope, id_)
        own_flags(self)
        arn = None if encryption_key is None else encryption_key.key_arn
        store = checkpoints.CheckpointStore(self, "Default", prefix=JOBS_PREFIX, kms_key_arn=arn, access_log=access_log)
        self.bucket: s3.IBucket = store.bucket
