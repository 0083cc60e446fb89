"""The checkpoint store: S3, and the only module that imports boto3. The others see keys below the checkpoint URI."""

import errno
import ipaddress
import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar
from urllib.parse import urlsplit

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from s3transfer.exceptions import RetriesExceededError, S3DownloadFailedError, S3UploadFailedError, S3ValidationError
from s3transfer.manager import TransferConfig, TransferManager

from launcher.agent.errors import StoreError, UnusableCheckpointError

TAG = "slipway"
SUPERSEDED, KEPT = "superseded", "kept"
"""The bucket's lifecycle rule expires objects with the tag slipway=superseded, and no others."""

_MEBIBYTE = 1024 * 1024
_PART_BYTES = 16 * _MEBIBYTE  # times 10 000 parts, the most in S3, is 160 GiB; s3transfer raises it for larger files
_CONCURRENCY = 8
# s3transfer opens a file for every queued part: its default of 1000 meets the usual limit of 1024 open files.
_QUEUED_REQUESTS = 64
_CHUNK_BYTES = _MEBIBYTE
_QUEUED_CHUNKS = 64  # downloaded and not yet written: 64 MiB at most
_PERMANENT = frozenset(
    {
        "403",
        "AccessDenied",
        "AllAccessDisabled",
        "InvalidAccessKeyId",
        "InvalidBucketName",
        "KMS.DisabledException",
        "NoSuchBucket",
        "SignatureDoesNotMatch",
    },
)
_MISSING = frozenset({"404", "NoSuchKey"})

_LOCAL_AND_LASTING = frozenset({errno.EACCES, errno.EDQUOT, errno.ENOSPC, errno.EROFS})
_TRANSFER_ERRORS = (
    BotoCoreError,
    CancelledError,
    ClientError,
    OSError,
    RetriesExceededError,
    S3DownloadFailedError,
    S3UploadFailedError,
    S3ValidationError,
)

_Result = TypeVar("_Result")


class Store:
    """The objects below one `s3://bucket/prefix`."""

    def __init__(self, uri: str, *, max_mb_s: float | None = None) -> None:
        """Make a client; nothing is sent yet.

        Args:
            uri: `s3://bucket/prefix`.
            max_mb_s: Upper bound of the upload rate, MB/s (10^6 bytes); None: no bound. Downloads have none: a node
                that restores earns nothing meanwhile.
        """
        bucket, _, prefix = uri.removeprefix("s3://").partition("/")
        self.uri = uri
        self._bucket = bucket
        self._prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        self._client = _client()
        self._max_bytes_s = None if max_mb_s is None else max(1, int(max_mb_s * 1e6))
        self._lock = threading.Lock()
        self._under_way: Transfers | None = None

    def sizes(self) -> dict[str, int]:
        """The size of every object, by relative key.

        Raises:
            StoreError: The store cannot be listed.
        """

        def pages() -> dict[str, int]:
            paginator = self._client.get_paginator("list_objects_v2")
            found = {}
            for page in paginator.paginate(Bucket=self._bucket, Prefix=self._prefix):
                for entry in page.get("Contents", ()):
                    found[entry["Key"][len(self._prefix) :]] = int(entry["Size"])
            return found

        return self._ask(f"listing {self.uri}", pages)

    def read_text(self, key: str) -> str:
        """A small object.

        Raises:
            StoreError: With `missing` where it is not there.
        """

        def get() -> str:
            body = self._client.get_object(Bucket=self._bucket, Key=self._prefix + key)["Body"]
            with body:
                return str(body.read().decode("utf-8", errors="replace"))

        return self._ask(f"reading {key}", get)

    def write_text(self, key: str, text: str) -> None:
        """Put a small object: whole or not at all.

        Raises:
            StoreError: It was not accepted.
        """
        self._ask(
            f"writing {key}",
            lambda: self._client.put_object(
                Bucket=self._bucket,
                Key=self._prefix + key,
                Body=text.encode(),
                ContentType="application/json",
            ),
        )

    def set_superseded(self, key: str, *, superseded: bool) -> None:
        """Tag an object for the lifecycle rule, or as one that stays.

        Raises:
            StoreError: The store refused.
        """
        tags = [{"Key": TAG, "Value": SUPERSEDED if superseded else KEPT}]
        self._ask(
            f"tagging {key}",
            lambda: self._client.put_object_tagging(
                Bucket=self._bucket, Key=self._prefix + key, Tagging={"TagSet": tags}
            ),
        )

    def uploads(self) -> "Transfers":
        """A set of parallel uploads, under the bound of the upload rate if there is one."""
        with self._lock:
            self._under_way = Transfers(self._client, self._bucket, self._prefix, max_bytes_s=self._max_bytes_s)
            return self._under_way

    def downloads(self) -> "Transfers":
        """A set of parallel downloads."""
        with self._lock:
            self._under_way = Transfers(self._client, self._bucket, self._prefix, max_bytes_s=None)
            return self._under_way

    def lift_bound(self) -> None:
        """No bound from now on: a notice is pending. What is under way is cut off, to start again unbounded."""
        bound, self._max_bytes_s = self._max_bytes_s, None
        if bound is not None:
            self.cancel()

    def cancel(self) -> None:
        """Cut off the transfers under way; the thread that waits for them sees a StoreError."""
        with self._lock:
            under_way = self._under_way
        if under_way is not None:
            under_way.cancel()

    def _ask(self, what: str, call: Callable[[], _Result]) -> _Result:
        try:
            return call()
        except (ClientError, BotoCoreError, OSError) as error:
            raise _translate(what, error) from error


class Transfers:
    """Parallel uploads or downloads of files. Leaving the block waits for all of them; an error in it cancels them."""

    def __init__(self, client: Any, bucket: str, prefix: str, *, max_bytes_s: int | None) -> None:
        """Start the workers."""
        self._bucket = bucket
        self._prefix = prefix
        self.arrived: set[str] = set()
        self._started: list[tuple[str, str, Any]] = []
        self._cut_off = False
        self._manager = TransferManager(
            client,
            TransferConfig(
                multipart_threshold=_PART_BYTES,
                multipart_chunksize=_PART_BYTES,
                max_request_concurrency=_CONCURRENCY,
                max_request_queue_size=_QUEUED_REQUESTS,
                max_submission_queue_size=_QUEUED_REQUESTS,
                max_io_queue_size=_QUEUED_CHUNKS,
                io_chunksize=_CHUNK_BYTES,
                max_bandwidth=max_bytes_s,
            ),
        )

    def __enter__(self) -> "Transfers":  # noqa: PYI034  typing.Self came with Python 3.11
        """Hand over itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Wait for everything, or cancel what is left.

        Raises:
            StoreError: One of the transfers failed.
        """
        try:
            if kind is None:
                self.wait()
        finally:
            self._manager.shutdown(cancel=True)

    def upload(self, path: Path, key: str) -> None:
        """Start an upload."""
        self._start("uploading", key, lambda: self._manager.upload(str(path), self._bucket, self._prefix + key))

    def download(self, key: str, path: Path) -> None:
        """Start a download; the file appears when it is complete."""
        self._start("downloading", key, lambda: self._manager.download(self._bucket, self._prefix + key, str(path)))

    def wait(self) -> None:
        """Wait until everything started so far is done; `arrived` then holds the keys that are.

        Raises:
            StoreError: One of the transfers failed or was cut off; the others were waited for.
            UnusableCheckpointError: A file to upload is no longer there.
        """
        failure: Exception | None = None
        for what, key, future in self._started:
            try:
                future.result()
                self.arrived.add(key)
            except FileNotFoundError as error:
                raise UnusableCheckpointError(f"{what} {key}: {error}") from error
            except _TRANSFER_ERRORS as error:
                failure = failure or self._failure(f"{what} {key}", error)
        self._started.clear()
        if failure is not None:
            raise failure

    def cancel(self) -> None:
        """Cut off everything, without waiting for it."""
        self._cut_off = True
        for _, _, future in list(self._started):
            future.cancel()

    def _failure(self, what: str, error: Exception) -> StoreError:
        return StoreError(f"{what}: cut off", cut_off=True) if self._cut_off else _translate(what, error)

    def _start(self, what: str, key: str, start: Callable[[], Any]) -> None:
        if self._cut_off:
            raise StoreError(f"{what} {key}: cut off", cut_off=True)
        self._started.append((what, key, start()))


def client_options(environment: Mapping[str, str]) -> dict[str, Any]:
    """Region and addressing for the S3 client.

    boto3 takes the endpoint from `AWS_ENDPOINT_URL_S3` or `AWS_ENDPOINT_URL` by itself. Where that is an address or
    localhost, bucket names cannot be host names, so they go into the path.

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


def _client() -> Any:
    options = client_options(os.environ)
    config = Config(
        connect_timeout=5,
        read_timeout=30,
        max_pool_connections=_CONCURRENCY + 4,
        retries={"mode": "standard", "total_max_attempts": 3},
        s3={"addressing_style": options["addressing_style"]},
    )
    return boto3.session.Session().client("s3", region_name=options["region_name"], config=config)


def _translate(what: str, error: Exception) -> StoreError:
    if not isinstance(error, ClientError):
        lasting = isinstance(error, OSError) and error.errno in _LOCAL_AND_LASTING
        return StoreError(f"{what}: {type(error).__name__}: {error}", permanent=lasting)
    code = str(error.response.get("Error", {}).get("Code", "unknown"))
    return StoreError(f"{what}: {error}", missing=code in _MISSING, permanent=code in _PERMANENT)
