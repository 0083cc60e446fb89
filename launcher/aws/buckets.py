"""The settings of S3 buckets."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from launcher.agent import safe_json
from launcher.aws.calls import unless_absent
from launcher.aws.session import Session, translate_errors


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketState:
    """The protection of a bucket and its expiration rules."""

    name: str
    encryption: str | None
    public_access_blocked: bool
    tls_only: bool
    manifests_once: bool
    lifecycle: tuple[dict[str, Any], ...]
    logs_to: str | None
    kms_key: str | None


def describe(session: Session, name: str) -> BucketState:
    """The state of a bucket, read through S3's own calls."""
    client = session.client("s3")
    with translate_errors(f"describe bucket {name}"):
        rules = _read_setting(client.get_bucket_encryption, "ServerSideEncryptionConfigurationNotFoundError", name)
        block = _read_setting(client.get_public_access_block, "NoSuchPublicAccessBlockConfiguration", name)
        policy = _read_setting(client.get_bucket_policy, "NoSuchBucketPolicy", name)
        lifecycle = _read_setting(client.get_bucket_lifecycle_configuration, "NoSuchLifecycleConfiguration", name)
        logging = client.get_bucket_logging(Bucket=name).get("LoggingEnabled", {})
        statements = safe_json.loads(policy["Policy"]) if policy else {"Statement": []}
    return BucketState(
        name=name,
        encryption=_default_encryption(rules).get("SSEAlgorithm"),
        public_access_blocked=bool(block) and all(block["PublicAccessBlockConfiguration"].values()),
        tls_only=any(
            statement["Effect"] == "Deny"
            and statement.get("Condition", {}).get("Bool", {}).get("aws:SecureTransport") == "false"
            for statement in statements["Statement"]
        ),
        manifests_once=_denies_overwriting(statements),
        lifecycle=tuple(lifecycle.get("Rules", [])),
        logs_to=logging.get("TargetBucket"),
        kms_key=_default_encryption(rules).get("KMSMasterKeyID"),
    )


def policy_of(session: Session, name: str) -> dict[str, Any]:
    """The policy of a bucket; empty if it has none."""
    with translate_errors(f"read the policy of bucket {name}"):
        policy = _read_setting(session.client("s3").get_bucket_policy, "NoSuchBucketPolicy", name)
        return dict(safe_json.loads(policy["Policy"])) if policy else {}


def default_key(session: Session, name: str) -> str | None:
    """The KMS key with which a bucket encrypts new objects, as the bucket names it; None if S3 manages the key."""
    absent = "ServerSideEncryptionConfigurationNotFoundError"
    with translate_errors(f"read the encryption of bucket {name}"):
        rules = _read_setting(session.client("s3").get_bucket_encryption, absent, name)
    return _default_encryption(rules).get("KMSMasterKeyID")


def _read_setting(call: Callable[..., Mapping[str, Any]], absent: str, bucket: str) -> Mapping[str, Any]:
    return unless_absent(call, f"read a configuration of bucket {bucket}", {absent}, Bucket=bucket) or {}


def _default_encryption(answer: Mapping[str, Any]) -> dict[str, str]:
    """The default encryption of new objects; empty if S3 reports none."""
    for rule in answer.get("ServerSideEncryptionConfiguration", {}).get("Rules", []):
        return dict(rule["ApplyServerSideEncryptionByDefault"])
    return {}


def _denies_overwriting(policy: dict[str, Any]) -> bool:
    return any(
        statement["Effect"] == "Deny"
        and statement.get("Condition", {}).get("Null", {}).get("s3:if-none-match") == "true"
        and "s3:PutObject" in statement["Action"]
        for statement in policy["Statement"]
    )
