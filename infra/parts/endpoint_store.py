"""The bucket of an endpoint that keeps requests: the queue and answers of an asynchronous one, and captured data."""

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from launcher.model.endpoint import KEPT_DAYS

INPUT, OUTPUT, FAILURES, CAPTURED = "requests", "answers", "failures", "captured"
"""Folders of the bucket."""
_INCOMPLETE_DAYS = 2


class EndpointStore(Construct):
    """A private, encrypted bucket whose objects expire; it stays when the endpoint goes.

    Attributes:
        bucket: the bucket.
    """

    def __init__(self, scope: Construct, id_: str, *, kms_key_arn: str | None) -> None:
        """Make the bucket.

        Args:
            scope: the stack.
            id_: construct id.
            kms_key_arn: key for the objects; None: S3's own.
        """
        super().__init__(scope, id_)
        key = kms.Key.from_key_arn(self, "Key", kms_key_arn) if kms_key_arn is not None else None
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
            lifecycle_rules=[
                s3.LifecycleRule(
                    id="expire",
                    expiration=Duration.days(KEPT_DAYS),
                    abort_incomplete_multipart_upload_after=Duration.days(_INCOMPLETE_DAYS),
                )
            ],
            removal_policy=RemovalPolicy.RETAIN,
        )

    def uri(self, folder: str) -> str:
        """The address of a folder."""
        return f"s3://{self.bucket.bucket_name}/{folder}"
