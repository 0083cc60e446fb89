"""S3 buckets: their settings, their contents, their deletion."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from launcher.agent import safe_json
from launcher.aws.calls import pages, unless_absent
from launcher.aws.session import Session, error_code, translate_errors
from launcher.model.errors import AwsError
from launcher.model.units import number_of

_AT_ONCE = 1000
"""Versions per DeleteObjects call."""
_NO_BUCKET = "NoSuchBucket"


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


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketContents:
    """The billed content of a bucket: every version of every object."""

    versions: int
    bytes: int

    @property
    def gib(self) -> float:
        """The size of the content in GiB."""
        return self.bytes / 2**30


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


def contents(session: Session, name: str) -> BucketContents | None:
    """The content of a bucket, including older versions; None if the bucket does not exist.

    Each 1,000 versions need one call.
    """
    count = size = 0
    try:
        for page in _pages(session.client("s3").list_object_versions, name):
            sizes = [int(version["Size"]) for version in page.get("Versions", [])]
            count, size = count + len(sizes), size + sum(sizes)
    except AwsError as problem:
        if error_code(problem) != _NO_BUCKET:
            raise
        return None
    return BucketContents(versions=count, bytes=size)


def delete(session: Session, name: str, notify: Callable[[int], None]) -> None:
    """Delete a bucket with its content: every version, every delete marker, every unfinished upload.

    If the bucket does not exist, do nothing, so that an interrupted removal can be repeated.

    Raises:
        AwsError: a call failed, or S3 did not delete an object.
    """
    client, deleted = session.client("s3"), 0
    try:
        for page in _pages(client.list_multipart_uploads, name):
            for upload in page.get("Uploads", []):
                with translate_errors(f"abort the upload of {upload['Key']} to {name}"):
                    client.abort_multipart_upload(Bucket=name, Key=upload["Key"], UploadId=upload["UploadId"])
        for page in _pages(client.list_object_versions, name):
            versions = [*page.get("Versions", []), *page.get("DeleteMarkers", [])]
            for start in range(0, len(versions), _AT_ONCE):
                deleted += _delete_versions(client, name, versions[start : start + _AT_ONCE])
                notify(deleted)
    except AwsError as problem:
        if error_code(problem) != _NO_BUCKET:
            raise
        return
    with translate_errors(f"delete bucket {name}"):
        client.delete_bucket(Bucket=name)


def _delete_versions(client: Any, name: str, versions: list[dict[str, Any]]) -> int:
    objects = [{"Key": version["Key"], "VersionId": version["VersionId"]} for version in versions]
    with translate_errors(f"delete the objects of {name}"):
        answer = client.delete_objects(Bucket=name, Delete={"Objects": objects, "Quiet": True})
    refused = answer.get("Errors", [])
    if refused:
        first = refused[0]
        raise AwsError(
            f"{name}: {number_of(len(refused), 'object')} stay, the first {first['Key']}: {first.get('Message', '')}"
        )
    return len(objects)


def _pages(call: Callable[..., Mapping[str, Any]], name: str) -> Iterator[Mapping[str, Any]]:
    yield from pages(call, f"list bucket {name}", Bucket=name)


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
