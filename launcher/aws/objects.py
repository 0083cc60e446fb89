"""Objects below one prefix in S3: list, read, write, tag, delete."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from boto3.exceptions import Boto3Error

from launcher.aws.calls import pages, unless_absent
from launcher.aws.session import Session, translate_errors
from launcher.model.aws_results import StoredObject
from launcher.model.errors import AwsError

_TAGGERS = 8
DELETED_A_CALL = 1000
"""Limit of keys per DeleteObjects call (S3 API reference, read 2026-11-20)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Objects:
    """The objects below `s3://bucket/prefix`; keys are relative to the prefix."""

    session: Session
    bucket: str
    prefix: str

    @classmethod
    def at(cls, session: Session, uri: str) -> "Objects":
        """The objects below a URI, `s3://bucket/prefix`."""
        bucket, _, prefix = uri.removeprefix("s3://").partition("/")
        folder = prefix.strip("/")
        return cls(session=session, bucket=bucket, prefix=f"{folder}/" if folder else "")

    @property
    def uri(self) -> str:
        """The URI of the prefix."""
        return f"s3://{self.bucket}/{self.prefix}".rstrip("/")

    def list_objects(self, *, below: str = "", after: str = "") -> tuple[StoredObject, ...]:
        """All objects, sorted by key."""
        call, subject = self._client.list_objects_v2, f"list {self.uri}"
        later = {"StartAfter": self.prefix + after} if after else {}
        return tuple(
            StoredObject(
                key=content["Key"].removeprefix(self.prefix),
                bytes=int(content["Size"]),
                modified=content["LastModified"],
            )
            for page in pages(call, subject, Bucket=self.bucket, Prefix=self.prefix + below, **later)
            for content in page.get("Contents", ())
        )

    def first(self) -> str | None:
        """The key of any one object; None if the prefix is empty.

        The objects that S3's console makes for folders do not count: their keys end with a slash, and they are empty.
        """
        with translate_errors(f"list {self.uri}"):
            answer = self._client.list_objects_v2(Bucket=self.bucket, Prefix=self.prefix)
        contents = answer.get("Contents", ())
        found = (content for content in contents if content["Size"] or not content["Key"].endswith("/"))
        # So many folders that others follow are not an empty prefix.
        some = next(found, contents[0] if answer.get("IsTruncated") else None)
        return None if some is None else str(some["Key"]).removeprefix(self.prefix)

    def find(self, key: str) -> StoredObject | None:
        """One object; None if it does not exist."""
        subject, absent = f"look for {self.uri}/{key}", {"404", "NoSuchKey", "NotFound"}
        answer = unless_absent(self._client.head_object, subject, absent, Bucket=self.bucket, Key=self.prefix + key)
        if answer is None:
            return None
        return StoredObject(key=key, bytes=int(answer["ContentLength"]), modified=answer["LastModified"])

    def read(self, key: str, limit: int | None = None) -> bytes:
        """The content of a small object; of an object that others write, at most the first `limit` bytes."""
        with translate_errors(f"read {self.uri}/{key}"), self._body(key) as body:
            return bytes(body.read(limit))

    def blocks(self, key: str, take: Callable[[bytes], None], size: int = 1 << 20) -> None:
        """Read an object block by block.

        Raises:
            AwsError: the object cannot be read to its end.
        """
        with translate_errors(f"read {self.uri}/{key}"), self._body(key) as body:
            for block in body.iter_chunks(size):
                take(block)

    def put(self, key: str, data: bytes) -> None:
        """Write a small object in one request: completely or not at all."""
        with translate_errors(f"write {self.uri}/{key}"):
            self._client.put_object(Bucket=self.bucket, Key=self.prefix + key, Body=data)

    def send(self, path: Path, key: str, advance: Callable[[int], None] = lambda _: None) -> None:
        """Upload a file, in parts if it is large.

        `advance` receives the bytes sent since its last call; before a part is sent again, its bytes are subtracted.

        Raises:
            AwsError: the object does not exist afterwards.
        """
        with translate_errors(f"send {path.name} to {self.uri}/{key}"):
            try:
                self._client.upload_file(str(path), self.bucket, self.prefix + key, Callback=advance)
            except (Boto3Error, OSError) as problem:
                raise AwsError(f"send {path.name} to {self.uri}/{key}: {problem}") from problem

    def tag(self, keys: Iterable[str], key: str, value: str) -> None:
        """Give objects one tag in place of their tags, 8 requests at once.

        Raises:
            AwsError: S3 refused; some objects may have the tag.
        """
        tags = {"TagSet": [{"Key": key, "Value": value}]}

        def tag_one(name: str) -> None:
            with translate_errors(f"tag {self.uri}/{name}"):
                self._client.put_object_tagging(Bucket=self.bucket, Key=self.prefix + name, Tagging=tags)

        with ThreadPoolExecutor(_TAGGERS) as pool:
            list(pool.map(tag_one, sorted(keys)))

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects, 1,000 per call.

        Raises:
            AwsError: some objects still exist; the error names the first.
        """
        ordered = sorted(keys)
        for start in range(0, len(ordered), DELETED_A_CALL):
            batch = [{"Key": self.prefix + key} for key in ordered[start : start + DELETED_A_CALL]]
            with translate_errors(f"delete below {self.uri}"):
                answer = self._client.delete_objects(Bucket=self.bucket, Delete={"Objects": batch, "Quiet": True})
            for failed in answer.get("Errors", ()):
                raise AwsError(f"delete s3://{self.bucket}/{failed['Key']}: {failed['Code']}: {failed['Message']}")

    def _body(self, key: str) -> Any:
        """An object's content as a stream that checks its length; entering the stream itself bypasses this check."""
        return closing(self._client.get_object(Bucket=self.bucket, Key=self.prefix + key)["Body"])

    @property
    def _client(self) -> Any:
        return self.session.client("s3")
