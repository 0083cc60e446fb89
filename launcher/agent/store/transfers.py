"""Parallel transfers between files and the store, and their errors; includes the uploads."""

import errno
import hashlib
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import CancelledError
from io import BytesIO
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Protocol, TypeVar

from botocore.exceptions import BotoCoreError, ClientError
from s3transfer.exceptions import RetriesExceededError, S3UploadFailedError, S3ValidationError
from s3transfer.manager import TransferConfig, TransferManager
from s3transfer.subscribers import BaseSubscriber

from launcher.agent.errors import ChangedCheckpointError, StoreError, UnusableCheckpointError

_Self = TypeVar("_Self", bound="Transfers")

CONCURRENCY = 10

PART_BYTES = 16 * 1024 * 1024  # times 10 000 parts, the most in S3, is 160 GiB; s3transfer raises it for larger files
# s3transfer opens a file for every queued part: its default of 1000 meets the usual limit of 1024 open files.
_QUEUED_REQUESTS = 64
_IN_MEMORY = 8
"""Maximum number of parallel uploads from memory."""
_POLL_S = 0.2
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
_PERMANENT_ERRNOS = frozenset(
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
        self._expected: dict[str, tuple[HashedFile, str]] = {}
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
        """Start an upload of a file, which `wait` compares with the size in bytes and the SHA-256 of its content."""
        content = HashedFile(path)
        self._expected[key] = (content, sha256)
        self._start(
            "uploading",
            key,
            lambda: self._manager.upload(content, self._bucket, self._prefix + key, subscribers=[_Size(size)]),
        )

    def wait(self) -> None:
        """Wait until all transfers started so far are done; `arrived` then holds the keys of the successful ones.

        Raises:
            StoreError: a transfer failed or was cancelled; the call waited for the others.
            ChangedCheckpointError: other bytes were sent than those that were hashed when the file was finished.
            UnusableCheckpointError: a file to upload is missing.
        """
        try:
            super().wait()
        finally:
            changed = [key for key, (content, sha256) in self._expected.items() if content.sha256 not in ("", sha256)]
            self.arrived -= set(changed)
            self._expected.clear()
        for key in changed:
            raise ChangedCheckpointError(f"{key.rpartition('/')[2]} changed while it was sent")

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


class HashedFile:
    """A file for an upload: what is read from it, once and from the front, is what is hashed and sent.

    It is opened at the first read, so that queued uploads hold no descriptors.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.sha256 = ""
        """Of all its bytes, once they were read to the end; hexadecimal."""
        self._file: IO[bytes] | None = None
        self._hash = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        """The next bytes; empty at the end."""
        if self.sha256:
            return b""
        if self._file is None:
            self._file = self.path.open("rb", buffering=0)
        pieces, left = [], size
        while left != 0:
            piece = self._file.read(left if size >= 0 else -1)
            if not piece:
                break
            pieces.append(piece)
            left -= len(piece) if size >= 0 else 0
        content = b"".join(pieces)
        self._hash.update(content)
        if left != 0 or size < 0:
            self._file.close()
            self.sha256 = self._hash.hexdigest()
        return content

    def close(self) -> None:
        """Close the file, also before its end."""
        if self._file is not None:
            self._file.close()


class _Size(BaseSubscriber):  # type: ignore[misc]  # s3transfer has no types
    """Tells s3transfer the size of a file that it cannot ask, so that large files get large parts."""

    def __init__(self, size: int) -> None:
        self._size = size

    def on_queued(self, future: Any, **_: Any) -> None:
        future.meta.provide_transfer_size(self._size)


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
        permanent = isinstance(error, OSError) and error.errno in _PERMANENT_ERRNOS
        return StoreError(f"{action}: {type(error).__name__}: {error}", permanent=permanent)
    code = str(error.response.get("Error", {}).get("Code", "unknown"))
    return StoreError(f"{action}: {error}", code=code, missing=code in _MISSING, permanent=code in _PERMANENT)
