"""A bucket that only its owner's account can reach: private, encrypted, TLS only, and retained after its stack."""

from aws_cdk import RemovalPolicy
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

INCOMPLETE_DAYS = 2
"""Days after which S3 deletes the parts of an incomplete upload."""


def private_bucket(
    scope: Construct,
    id_: str,
    *,
    rules: list[s3.LifecycleRule],
    kms_key_arn: str | None = None,
    log_to: s3.IBucket | None = None,
) -> s3.Bucket:
    """Create a private bucket.

    `kms_key_arn` None: S3's own key. `log_to`: the bucket for the log of its requests.
    """
    key = kms.Key.from_key_arn(scope, "Key", kms_key_arn) if kms_key_arn is not None else None
    return s3.Bucket(
        scope,
        id_,
        encryption=s3.BucketEncryption.S3_MANAGED if key is None else s3.BucketEncryption.KMS,
        encryption_key=key,
        bucket_key_enabled=None if key is None else True,
        block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
        object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
        enforce_ssl=True,
        minimum_tls_version=1.2,
        server_access_logs_bucket=log_to,
        lifecycle_rules=rules,
        removal_policy=RemovalPolicy.RETAIN,
    )
