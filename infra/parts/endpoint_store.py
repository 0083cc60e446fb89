"""The bucket of an endpoint that stores requests: an asynchronous endpoint's queue and responses, and captured data."""

from aws_cdk import Duration
from aws_cdk import aws_s3 as s3
from constructs import Construct

from infra.parts.private_bucket import INCOMPLETE_DAYS, private_bucket
from launcher.model.endpoint import RETENTION_DAYS

INPUT, OUTPUT, FAILURES, CAPTURED = "requests", "answers", "failures", "captured"
"""The bucket's folders."""


class EndpointStore(Construct):
    """A private, encrypted bucket whose objects expire; the bucket remains after the endpoint's deletion.

    Attributes:
        bucket: the bucket.
    """

    def __init__(self, scope: Construct, id_: str, *, kms_key_arn: str | None) -> None:
        super().__init__(scope, id_)
        rule = s3.LifecycleRule(
            id="expire",
            expiration=Duration.days(RETENTION_DAYS),
            abort_incomplete_multipart_upload_after=Duration.days(INCOMPLETE_DAYS),
        )
        self.bucket = private_bucket(self, "Bucket", rules=[rule], kms_key_arn=kms_key_arn)

    def uri(self, folder: str) -> str:
        """The URI of a folder."""
        return f"s3://{self.bucket.bucket_name}/{folder}"
