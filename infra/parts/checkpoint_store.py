"""The bucket that keeps checkpoints: it outlives every cluster and is deleted by nobody but its owner."""

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from launcher.model.upkeep import ACCESS_LOG_DAYS, SUPERSEDED_DAYS

SUPERSEDED = {"slipway": "superseded"}
"""The tag the agent puts on checkpoints that newer ones replace. A lifecycle rule by age could delete the newest."""
_INCOMPLETE_DAYS = 2


class CheckpointStore(Construct):
    """A private, encrypted bucket.

    It is not versioned: checkpoints have their own names and are never written twice, and with versions every
    superseded one would be paid for again.

    Attributes:
        bucket: the bucket.
    """

    def __init__(self, scope: Construct, id_: str, *, kms_key_arn: str | None, access_log: bool) -> None:
        """Make the bucket.

        Args:
            scope: the stack.
            id_: construct id; the bucket's logical id follows from it.
            kms_key_arn: key for the objects; None: S3's own.
            access_log: keep a log of every request, in a bucket of its own.
        """
        super().__init__(scope, id_)
        key = kms.Key.from_key_arn(self, "Key", kms_key_arn) if kms_key_arn is not None else None
        log_bucket = self._access_log_bucket() if access_log else None
        self.bucket = s3.Bucket(
            self,
            "Bucket",
            encryption=s3.BucketEncryption.S3_MANAGED if key is None else s3.BucketEncryption.KMS,
            encryption_key=key,
            bucket_key_enabled=None if key is None else True,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            enforce_ssl=True,
            minimum_tls_version=1.2,
            server_access_logs_bucket=log_bucket,
            lifecycle_rules=[
                s3.LifecycleRule(id="superseded", tag_filters=SUPERSEDED, expiration=Duration.days(SUPERSEDED_DAYS)),
                s3.LifecycleRule(
                    id="incomplete", abort_incomplete_multipart_upload_after=Duration.days(_INCOMPLETE_DAYS)
                ),
            ],
            removal_policy=RemovalPolicy.RETAIN,
        )

    def _access_log_bucket(self) -> s3.Bucket:
        """Where S3 delivers the log of requests; S3 writes it with its own key only."""
        return s3.Bucket(
            self,
            "AccessLog",
            encryption=s3.BucketEncryption.S3_MANAGED,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            enforce_ssl=True,
            minimum_tls_version=1.2,
            lifecycle_rules=[s3.LifecycleRule(id="expire", expiration=Duration.days(ACCESS_LOG_DAYS))],
            removal_policy=RemovalPolicy.RETAIN,
        )
