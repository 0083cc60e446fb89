"""The objects of a bucket: their size, and their deletion with all versions."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from launcher.aws.calls import pages
from launcher.aws.session import Session, error_code, translate_errors
from launcher.model.errors import AwsError
from launcher.model.units import number_of

_NO_BUCKET = "NoSuchBucket"
_AT_ONCE = 1000
"""Versions per DeleteObjects call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketContents:
    """The billed content of a bucket: every version of every object."""

    versions: int
    bytes: int

    @property
    def gib(self) -> float:
        """The size of the content in GiB."""
        return self.bytes / 2**30


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
