"""A bucket as S3 describes it, what it holds, and its end."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from launcher.agent import safe_json
from launcher.aws.session import Session, translated
from launcher.model.errors import AwsError

_AT_ONCE = 1000
"""Versions that one DeleteObjects takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketState:
    """What protects a bucket and what expires in it."""

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
    """What is paid for in a bucket: every version of every object."""

    versions: int
    bytes: int

    @property
    def gib(self) -> float:
        """Its size in GiB."""
        return self.bytes / 2**30


def describe(session: Session, name: str) -> BucketState:
    """The state of a bucket, read through S3's own calls."""
    client = session.client("s3")
    with translated(f"describe bucket {name}"):
        rules = _optional(client.get_bucket_encryption, "ServerSideEncryptionConfigurationNotFoundError", Bucket=name)
        block = _optional(client.get_public_access_block, "NoSuchPublicAccessBlockConfiguration", Bucket=name)
        policy = _optional(client.get_bucket_policy, "NoSuchBucketPolicy", Bucket=name)
        lifecycle = _optional(client.get_bucket_lifecycle_configuration, "NoSuchLifecycleConfiguration", Bucket=name)
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
    """The policy of a bucket; empty where it has none."""
    with translated(f"read the policy of bucket {name}"):
        found = _optional(session.client("s3").get_bucket_policy, "NoSuchBucketPolicy", Bucket=name)
        return dict(safe_json.loads(found["Policy"])) if found else {}


def default_key(session: Session, name: str) -> str | None:
    """The KMS key that a bucket encrypts new objects with, as the bucket names it; None where S3 keeps the key."""
    absent = "ServerSideEncryptionConfigurationNotFoundError"
    with translated(f"read the encryption of bucket {name}"):
        rules = _optional(session.client("s3").get_bucket_encryption, absent, Bucket=name)
    return _default_encryption(rules).get("KMSMasterKeyID")


def contents(session: Session, name: str) -> BucketContents | None:
    """What a bucket holds, older versions included; None where there is no such bucket.

    Every thousand versions take a call.
    """
    count = size = 0
    try:
        for page in _pages(session, name, "list_object_versions"):
            sizes = [int(version["Size"]) for version in page.get("Versions", [])]
            count, size = count + len(sizes), size + sum(sizes)
    except _NoBucketError:
        return None
    return BucketContents(versions=count, bytes=size)


def delete(session: Session, name: str, tell: Callable[[int], None]) -> None:
    """Delete a bucket with all it holds: every version, every delete marker, every unfinished upload.

    Nothing is done where there is no such bucket, so that a removal that broke off can be run again.

    Args:
        session: AWS.
        name: the bucket.
        tell: is told how many versions and markers are gone so far.

    Raises:
        AwsError: a call failed, or S3 would not delete an object.
    """
    client, gone = session.client("s3"), 0
    try:
        for page in _pages(session, name, "list_multipart_uploads"):
            for upload in page.get("Uploads", []):
                with translated(f"abort the upload of {upload['Key']} to {name}"):
                    client.abort_multipart_upload(Bucket=name, Key=upload["Key"], UploadId=upload["UploadId"])
        for page in _pages(session, name, "list_object_versions"):
            found = [*page.get("Versions", []), *page.get("DeleteMarkers", [])]
            for start in range(0, len(found), _AT_ONCE):
                gone += _delete_versions(client, name, found[start : start + _AT_ONCE])
                tell(gone)
    except _NoBucketError:
        return
    with translated(f"delete bucket {name}"):
        client.delete_bucket(Bucket=name)


def _delete_versions(client: Any, name: str, found: list[dict[str, Any]]) -> int:
    wanted = [{"Key": each["Key"], "VersionId": each["VersionId"]} for each in found]
    with translated(f"delete the objects of {name}"):
        answer = client.delete_objects(Bucket=name, Delete={"Objects": wanted, "Quiet": True})
    refused = answer.get("Errors", [])
    if refused:
        first = refused[0]
        raise AwsError(f"{name}: {len(refused)} objects stay, the first {first['Key']}: {first.get('Message', '')}")
    return len(wanted)


class _NoBucketError(Exception):
    """There is no such bucket."""


def _pages(session: Session, name: str, call: str) -> Iterator[dict[str, Any]]:
    try:
        with translated(f"list bucket {name}"):
            yield from session.client("s3").get_paginator(call).paginate(Bucket=name)
    except AwsError as problem:
        cause = problem.__cause__
        if isinstance(cause, ClientError) and cause.response.get("Error", {}).get("Code") == "NoSuchBucket":
            raise _NoBucketError from problem
        raise


def _optional(call: Any, absent: str, **arguments: str) -> dict[str, Any]:
    """The answer of a call, or nothing when S3 says that there is no such configuration."""
    try:
        return dict(call(**arguments))
    except ClientError as problem:
        if problem.response.get("Error", {}).get("Code") == absent:
            return {}
        raise


def _default_encryption(answer: dict[str, Any]) -> dict[str, str]:
    """What new objects are encrypted with unless they say otherwise; empty where S3 says nothing."""
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
