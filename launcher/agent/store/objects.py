"""The checkpoint store: S3, and the only module that makes a client. Others see only keys below the checkpoint URI.

The client is botocore's own: what boto3 adds to it is not used, and takes a node a tenth of the agent's start.
"""

import ipaddress
import os
import threading
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar
from urllib.parse import urlsplit

import botocore.session
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from urllib3.exceptions import HTTPError

from launcher.agent.errors import StoreError
from launcher.agent.store.downloads import WORKERS, Downloads
from launcher.agent.store.transfers import CONCURRENCY, Transfers, Uploads, store_error

TAG = "slipway"
SUPERSEDED, KEPT = "superseded", "kept"
"""The bucket's lifecycle rule expires objects with the tag slipway=superseded, and no others."""

_CONNECT_S = 5.0
_LONGEST_KEY_BYTES = 1024
_DENIED = frozenset({"403", "AccessDenied"})
_CHANGED = frozenset({"409", "412", "ConditionalRequestConflict", "PreconditionFailed"})
_NO_CONDITIONS = frozenset({"501", "NotImplemented"})

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredText:
    """A small object, as it was read.

    Attributes:
        text: Its content.
        etag: Identifies this version of the object.
        age_s: Seconds since it was written, by the store's own clock.
        written_s: When it was written, by the same clock, seconds since 1970; 0 if unknown.
    """

    text: str
    etag: str
    age_s: float
    written_s: float = 0.0


class Store:
    """The objects below one `s3://bucket/prefix`."""

    def __init__(self, uri: str, *, max_mb_s: float | None = None, timeout_s: float = 30.0) -> None:
        """`max_mb_s` (10^6 bytes) limits uploads only. A request without a byte for `timeout_s` is repeated."""
        bucket, _, prefix = uri.removeprefix("s3://").partition("/")
        self.uri = uri
        self._bucket = bucket
        self._prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        self._client = _client(timeout_s)
        self._max_bytes_s = None if max_mb_s is None else max(1, int(max_mb_s * 1e6))
        self._lock = threading.Lock()
        self._current: Transfers | None = None

    def can_name(self, key: str) -> bool:
        """Whether an object can have this key: S3 allows 1,024 bytes of UTF-8 (S3 User Guide, "Object key names")."""
        return len(f"{self._prefix}{key}".encode()) <= _LONGEST_KEY_BYTES

    def sizes(self, below: str = "") -> dict[str, int]:
        """The size of every object, by relative key."""
        return {key: stamp[0] for key, stamp in self.stamps(below).items()}

    def stamps(self, below: str = "", *, delimiter: str = "") -> dict[str, tuple[int, float]]:
        """The size and write time (seconds since 1970) of every object, by relative key.

        `delimiter` "/" combines keys with the same text up to the next slash into one key that ends with it, of size 0.
        """

        def pages() -> dict[str, tuple[int, float]]:
            paginator = self._client.get_paginator("list_objects_v2")
            request = {"Bucket": self._bucket, "Prefix": self._prefix + below}
            stamps = {}
            for page in paginator.paginate(**request, **({"Delimiter": delimiter} if delimiter else {})):
                for entry in page.get("Contents", ()):
                    stamp = int(entry["Size"]), float(entry["LastModified"].timestamp())
                    stamps[entry["Key"][len(self._prefix) :]] = stamp
                for prefix in page.get("CommonPrefixes", ()):
                    stamps[prefix["Prefix"][len(self._prefix) :]] = (0, 0.0)
            return stamps

        return self._call(f"listing {self.uri}", pages)

    def folders(self) -> list[str]:
        """The names before the first slash of all keys, sorted: one request per thousand names, not per object."""
        return sorted(key[:-1] for key in self.stamps(delimiter="/") if key.endswith("/"))

    def read_text(self, key: str) -> str:
        """The content of a small object.

        Raises:
            StoreError: with `missing` if the object is missing.
        """
        return self.get_text(key).text

    def find_text(self, key: str) -> StoredText | None:
        """A small object; None if it is missing."""
        try:
            return self.get_text(key)
        except StoreError as error:
            # Without the right to list a bucket freely, S3 says of a missing object that access is denied.
            if error.missing or (error.code in _DENIED and key not in self.sizes(key)):
                return None
            raise

    def read_bytes(self, key: str) -> bytes:
        """The content of an object that fits in memory.

        Raises:
            StoreError: with `missing` if the object is missing.
        """

        def get() -> bytes:
            with closing(self._client.get_object(Bucket=self._bucket, Key=self._prefix + key)["Body"]) as body:
                return bytes(body.read())

        return self._call(f"reading {key}", get)

    def swap_text(self, key: str, text: str, *, before: StoredText | None) -> StoredText | None:
        """Write a small object if it is unchanged: completely or not at all.

        `before` is its expected state; None: the object must not exist.

        Returns the new state; None if another writer was first.
        """
        condition = {"IfNoneMatch": "*"} if before is None else {"IfMatch": before.etag}
        try:
            etag = self._put(key, text, condition)
        except StoreError as error:
            if error.code in _CHANGED or error.missing:
                return None
            if error.code not in _NO_CONDITIONS:
                raise
            # A store without conditional writes: look once more, then write. Of two at one instant the later one wins.
            now = self.find_text(key)
            if (now and now.etag) != (before and before.etag):
                return None
            etag = self._put(key, text, {})
        return StoredText(text=text, etag=etag, age_s=0.0)

    def put_new(self, key: str, data: bytes) -> bool:
        """Write a small object if the key is free; return whether this call, or an earlier try of it, wrote it."""
        try:
            self._put(key, data, {"IfNoneMatch": "*"})
        except StoreError as error:
            if error.code in _NO_CONDITIONS:
                self._put(key, data, {})
            elif error.code in _CHANGED:
                return self.read_bytes(key) == data
            else:
                raise
        return True

    def write_text(self, key: str, text: str) -> None:
        """Write a small object: completely or not at all.

        Raises:
            StoreError: the store did not accept the object.
        """
        self._put(key, text, {})

    def _put(self, key: str, content: str | bytes, condition: Mapping[str, str]) -> str:
        answer = self._call(
            f"writing {key}",
            lambda: self._client.put_object(
                Bucket=self._bucket,
                Key=self._prefix + key,
                Body=content.encode() if isinstance(content, str) else content,
                ContentType="application/json",
                **condition,
            ),
        )
        return str(answer["ETag"])

    def get_text(self, key: str) -> StoredText:
        """A small object.

        Raises:
            StoreError: with `missing` if the object is missing.
        """

        def get() -> StoredText:
            answer = self._client.get_object(Bucket=self._bucket, Key=self._prefix + key)
            with closing(answer["Body"]) as body:
                text = str(body.read().decode("utf-8", errors="replace"))
            written_s = float(answer["LastModified"].timestamp()) if "LastModified" in answer else 0.0
            return StoredText(text=text, etag=str(answer["ETag"]), age_s=_age_s(answer), written_s=written_s)

        return self._call(f"reading {key}", get)

    def set_superseded(self, key: str, *, superseded: bool) -> None:
        """Tag an object for the lifecycle rule, or as retained.

        Raises:
            StoreError: the store refused.
        """
        tags = [{"Key": TAG, "Value": SUPERSEDED if superseded else KEPT}]
        self._call(
            f"tagging {key}",
            lambda: self._client.put_object_tagging(
                Bucket=self._bucket, Key=self._prefix + key, Tagging={"TagSet": tags}
            ),
        )

    def uploads(self) -> Uploads:
        """A set of parallel uploads, within the upload rate limit if one is set."""
        with self._lock:
            self._current = uploads = Uploads(self._client, self._bucket, self._prefix, max_bytes_s=self._max_bytes_s)
            return uploads

    def downloads(self) -> Downloads:
        """A set of parallel downloads."""
        with self._lock:
            self._current = downloads = Downloads(self._client, self._bucket, self._prefix)
            return downloads

    def lift_bound(self) -> None:
        """Remove the rate limit because a notice is pending. Current uploads are cancelled, to restart without it."""
        bound, self._max_bytes_s = self._max_bytes_s, None
        if bound is not None:
            self.cancel()

    def cancel(self) -> None:
        """Cancel the current transfers; the thread that waits for them receives a StoreError."""
        with self._lock:
            current = self._current
        if current is not None:
            current.cancel()

    def _call(self, action: str, call: Callable[[], _Result]) -> _Result:
        try:
            return call()
        except (ClientError, BotoCoreError, HTTPError, OSError) as error:  # of a body, urllib3's own come through
            raise store_error(action, error) from error


def client_options(environment: Mapping[str, str]) -> dict[str, Any]:
    """Region and addressing for the S3 client.

    botocore reads the endpoint from `AWS_ENDPOINT_URL_S3` or `AWS_ENDPOINT_URL` automatically. If the endpoint is an
    address or localhost, bucket names cannot be host names, so they are part of the path.

    >>> client_options({"AWS_ENDPOINT_URL": "http://127.0.0.1:5000", "AWS_REGION": "us-east-2"})
    {'region_name': 'us-east-2', 'addressing_style': 'path'}
    >>> client_options({})
    {'region_name': None, 'addressing_style': 'auto'}
    """
    endpoint = environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL") or ""
    host = urlsplit(endpoint).hostname or ""
    return {
        "region_name": environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION"),
        "addressing_style": "path" if host == "localhost" or _is_address(host) else "auto",
    }


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _client(timeout_s: float) -> Any:
    options = client_options(os.environ)
    config = Config(
        connect_timeout=min(_CONNECT_S, timeout_s),
        read_timeout=timeout_s,
        max_pool_connections=max(CONCURRENCY, WORKERS) + 4,
        retries={"mode": "standard", "total_max_attempts": 3},
        s3={"addressing_style": options["addressing_style"]},
    )
    return botocore.session.get_session().create_client("s3", region_name=options["region_name"], config=config)


def _age_s(answer: Mapping[str, Any]) -> float:
    """Seconds since an object was written, by the store's clock, which may differ from this node's."""
    date = answer["ResponseMetadata"]["HTTPHeaders"].get("date")
    try:
        now = parsedate_to_datetime(str(date))
        return float((now - answer["LastModified"]).total_seconds())
    except (KeyError, TypeError, ValueError):
        return 0.0
