"""A bucket as S3 describes it."""

import json
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from launcher.aws.session import Session, translated


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketState:
    """What protects a bucket and what expires in it."""

    name: str
    encryption: str | None
    public_access_blocked: bool
    tls_only: bool
    versioned: bool
    lifecycle: tuple[dict[str, Any], ...]


def describe(session: Session, name: str) -> BucketState:
    """The state of a bucket, read through S3's own calls.

    Raises:
        AwsError: a call failed.
    """
    client = session.client("s3")
    with translated(f"describe bucket {name}"):
        rules = _optional(client.get_bucket_encryption, "ServerSideEncryptionConfigurationNotFoundError", Bucket=name)
        block = _optional(client.get_public_access_block, "NoSuchPublicAccessBlockConfiguration", Bucket=name)
        policy = _optional(client.get_bucket_policy, "NoSuchBucketPolicy", Bucket=name)
        lifecycle = _optional(client.get_bucket_lifecycle_configuration, "NoSuchLifecycleConfiguration", Bucket=name)
        versioning = client.get_bucket_versioning(Bucket=name).get("Status") == "Enabled"
    return BucketState(
        name=name,
        encryption=_algorithm(rules),
        public_access_blocked=bool(block) and all(block["PublicAccessBlockConfiguration"].values()),
        tls_only=bool(policy) and _denies_plain_text(json.loads(policy["Policy"])),
        versioned=versioning,
        lifecycle=tuple(lifecycle.get("Rules", [])),
    )


def _optional(call: Any, absent: str, **arguments: str) -> dict[str, Any]:
    """The answer of a call, or nothing when S3 says that there is no such configuration."""
    try:
        return dict(call(**arguments))
    except ClientError as problem:
        if problem.response.get("Error", {}).get("Code") == absent:
            return {}
        raise


def _algorithm(answer: dict[str, Any]) -> str | None:
    """The default encryption of a bucket."""
    for rule in answer.get("ServerSideEncryptionConfiguration", {}).get("Rules", []):
        return str(rule["ApplyServerSideEncryptionByDefault"]["SSEAlgorithm"])
    return None


def _denies_plain_text(policy: dict[str, Any]) -> bool:
    """Whether a policy denies every request that is not over TLS."""
    return any(
        statement["Effect"] == "Deny"
        and statement.get("Condition", {}).get("Bool", {}).get("aws:SecureTransport") == "false"
        for statement in policy["Statement"]
    )
