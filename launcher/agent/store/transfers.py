"""Parallel transfers between files and the store, and their errors; includes the uploads."""

import base64
import errno
import hashlib
import io
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import CancelledError
from io import BytesIO
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, TypeVar

from botocore.exceptions import BotoCoreError, ClientError
from s3transfer.exceptions import RetriesExceededError, S3UploadFailedError, S3ValidationError
from s3transfer.manager import TransferConfig, TransferManager
from s3transfer.subscribers import BaseSubscriber

from launcher.agent.errors import RewrittenError, StoreError, UnusableCheckpointError

_Self = TypeVar("_Self", bound="Transfers")

CONCURRENCY = 10

PART_BYTES = 16 * 1024 * 1024  # times 10 000 parts, the most in S3, is 160 GiB; s3transfer raises it for larger files
# s3transfer opens a file for every queued part: its default of 1000 meets the usual limit of 1024 open files.
_QUEUED_REQUESTS = 64
_IN_MEMORY = 8
"""Maximum number of parallel uploads from memory."""
_POLL_S = 0.2
_READ_BYTES = 4 * 1024 * 1024
_OTHER_CONTENT = frozenset({"BadDigest", "InvalidDigest", "XAmzContentChecksumMismatch"})
"""S3's codes for content that does not have the checksum of its request."""
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
_LOCAL_AND_LASTING = frozenset(
    {errno.EACCES, errno.EDQUOT, errno.EFBIG, errno.EISDIR, errno.ENOSPC, errno.ENOTDIR, errno.EROFS}
)
_TRANSFER_ERRORS = (
    BotoCoreError,
    CancelledError,
    ClientError,
    OSError,
    RetriesExceededError,
    S3UploadFailedError,
    S3ValidationError,
)


class ActiveTransfer(Protocol):
    """A transfer of one file."""

    def result(self) -> object:
        """Wait for the transfer; raise its error."""

    def cancel(self) -> object:
        """Cancel the transfer, without waiting for it."""


class Transfers(ABC):
    """Parallel transfers of files. Leaving the block waits for all of them; an error in it cancels them."""

    def __init__(self) -> None:
        self.arrived: set[str] = set()
        self._started: list[tuple[str, str, ActiveTransfer]] = []
        self._cut_off = False

    def __enter__(self: _Self) -> _Self:  # noqa: PYI019  typing.Self came with Python 3.11
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                self.wait()
        finally:
            self._shut_down()

    def wait(self) -> None:
        """Wait until all transfers started so far are done; `arrived` then holds the keys of the successful ones.

        Raises:
            StoreError: a transfer failed or was cancelled; the call waited for the others.
            UnusableCheckpointError: a file to upload is missing.
        """
        failure: Exception | None = None
        for action, key, future in self._started:
            try:
                future.result()
                self.arrived.add(key)
            except FileNotFoundError as error:
                raise UnusableCheckpointError(f"{action} {key}: {error}") from error
            except _TRANSFER_ERRORS as error:
                failure = failure or self._failure(f"{action} {key}", error)
        self._started.clear()
        if failure is not None:
            raise failure

    def cancel(self) -> None:
        """Cancel all transfers, without waiting for them."""
        self._cut_off = True
        for _, _, future in list(self._started):
            future.cancel()

    @abstractmethod
    def _shut_down(self) -> None:
        """Cancel the remaining transfers, and end the workers."""

    def _failure(self, action: str, error: Exception) -> StoreError:
        return (
            StoreError(f"{action}: interrupted by a notice", cut_off=True)
            if self._cut_off
            else store_error(action, error)
        )

    def _is_cut_off(self) -> bool:
        """Whether the transfers are cancelled by now: another thread can set this."""
        return self._cut_off

    def _start(self, action: str, key: str, start: Callable[[], ActiveTransfer]) -> None:
        if self._is_cut_off():
            raise StoreError(f"{action} {key}: interrupted by a notice", cut_off=True)
        begun = start()
        self._started.append((action, key, begun))
        if self._is_cut_off():  # while it began: the thread that closed all connections may not have seen it
            begun.cancel()


class Uploads(Transfers):
    """Uploads through boto3's own transfer manager."""

    def __init__(self, client: Any, bucket: str, prefix: str, *, max_bytes_s: int | None) -> None:
        """`max_bytes_s` limits all uploads together; None: no limit."""
        super().__init__()
        self._bucket = bucket
        self._prefix = prefix
        self._room = threading.Semaphore(_IN_MEMORY)
        self._expected: dict[str, tuple[_HashedFile, int, str]] = {}
        self._manager = TransferManager(
            client,
            TransferConfig(
                multipart_threshold=PART_BYTES,
                multipart_chunksize=PART_BYTES,
                max_request_concurrency=CONCURRENCY,
                max_request_queue_size=_QUEUED_REQUESTS,
                max_submission_queue_size=_QUEUED_REQUESTS,
                max_bandwidth=max_bytes_s,
            ),
        )

    def upload(self, path: Path, key: str, *, size: int, sha256: str) -> None:
        """Start an upload of a file with the given size (bytes) and SHA-256 (hexadecimal), which `wait` verifies."""
        content = _HashedFile(path)
        self._expected[key] = (content, size, sha256)
        # S3 verifies the SHA-256 of every request; of an object in several parts it knows no SHA-256 of the whole
        # (S3 User Guide, "Checking object integrity": full-object checksums are CRCs only).
        checksum = (
            {"ChecksumSHA256": base64.b64encode(bytes.fromhex(sha256)).decode()}
            if size < PART_BYTES
            else {"ChecksumAlgorithm": "SHA256"}
        )
        self._start(
            "uploading",
            key,
            lambda: self._manager.upload(
                content,
                self._bucket,
                self._prefix + key,
                extra_args=checksum,
                subscribers=[_KnownSize(size), _Closed(content)],
            ),
        )

    def wait(self) -> None:
        """Wait as every transfer does, then compare the bytes that were sent with the hashes.

        Raises:
            RewrittenError: a file had another content when it was sent than when it was hashed.
        """
        try:
            super().wait()
        except StoreError as error:
            if error.code not in _OTHER_CONTENT:
                raise
            raise RewrittenError(f"a file was written again while it was stored: {error}") from error
        finally:
            changed = [
                key
                for key, (content, size, sha256) in self._expected.items()
                if key in self.arrived and (content.bytes, content.digest.hexdigest()) != (size, sha256)
            ]
            self.arrived.difference_update(changed)
        if changed:
            raise RewrittenError(f"{changed[0].rpartition('/')[2]} was written again while it was stored")

    def upload_content(self, content: bytes, key: str) -> None:
        """Start an upload from memory, once few enough other uploads of this kind are active."""
        while not self._room.acquire(timeout=_POLL_S):
            if self._is_cut_off():
                raise StoreError(f"uploading {key}: interrupted by a notice", cut_off=True)
        remaining = _SlotRelease(self._room)
        try:
            self._start(
                "uploading",
                key,
                lambda: self._manager.upload(
                    BytesIO(content), self._bucket, self._prefix + key, subscribers=[remaining]
                ),
            )
        except BaseException:
            remaining.on_done()
            raise

    def _shut_down(self) -> None:
        self._manager.shutdown(cancel=True)


class _HashedFile:
    """A file that is read once, from its begin, by s3transfer; `digest` is the SHA-256 of the bytes it handed out.

    It cannot seek, so s3transfer holds each part in memory, and a repeated request sends the same bytes.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: io.FileIO | None = None
        self._closed = False
        self.digest = hashlib.sha256()
        self.bytes = 0

    def read(self, size: int = -1) -> bytes:
        if self._file is None and not self._closed:
            self._file = self._path.open("rb", buffering=0)
        pieces = []
        while self._file is not None and size != 0:
            piece = self._file.read(_READ_BYTES if size < 0 else min(size, _READ_BYTES))
            if not piece:
                self.close()
                break
            self.digest.update(piece)
            self.bytes += len(piece)
            pieces.append(piece)
            size -= len(piece) if size > 0 else 0
        return b"".join(pieces)

    def close(self) -> None:
        self._closed = True
        if self._file is not None:
            self._file.close()
            self._file = None


class _KnownSize(BaseSubscriber):  # type: ignore[misc]  # s3transfer has no types
    """Gives s3transfer the size, from which it chooses the size of the parts."""

    def __init__(self, size: int) -> None:
        self._size = size

    def on_queued(self, future: Any, **_: Any) -> None:
        future.meta.provide_transfer_size(self._size)


class _Closed(BaseSubscriber):  # type: ignore[misc]  # s3transfer has no types
    """Closes the file when its transfer is over, also one that was cancelled."""

    def __init__(self, content: _HashedFile) -> None:
        self._content = content

    def on_done(self, **_: Any) -> None:
        self._content.close()


class _SlotRelease(BaseSubscriber):  # type: ignore[misc]  # s3transfer has no types
    """Releases its slot, once, when a transfer is over."""

    def __init__(self, room: threading.Semaphore) -> None:
        self._room: threading.Semaphore | None = room
        self._lock = threading.Lock()

    def on_done(self, **_: Any) -> None:
        with self._lock:
            room, self._room = self._room, None
        if room is not None:
            room.release()


def store_error(action: str, error: Exception) -> StoreError:
    """Convert an error of boto3 to a StoreError."""
    if not isinstance(error, ClientError):
        lasting = isinstance(error, OSError) and error.errno in _LOCAL_AND_LASTING
        return StoreError(f"{action}: {type(error).__name__}: {error}", permanent=lasting)
    code = str(error.response.get("Error", {}).get("Code", "unknown"))
    return StoreError(f"{action}: {error}", code=code, missing=code in _MISSING, permanent=code in _PERMANENT)
