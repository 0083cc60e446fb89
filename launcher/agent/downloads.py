"""Parallel downloads: objects in parts, each read into memory that is there already and written where it belongs.

boto3's transfer manager asks for memory at every read and writes with one thread; on two processors it took three times
as long (`python -m benchmarks.checkpoint`).
"""

import os
import threading
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import closing
from io import FileIO
from pathlib import Path
from typing import Any

from botocore.exceptions import IncompleteReadError, ReadTimeoutError, ResponseStreamingError

from launcher.agent.transfers import CONCURRENCY, PART_BYTES, Transfers

_CHUNK_BYTES = 1024 * 1024
_LEAST_WORKERS = 3
"""Threads beyond the processors take the interpreter from one another: ten on two brought half of what three do."""
_ATTEMPTS = 5
"""Of a part in a row that bring no byte; boto3's transfer manager tries as often."""
_BROKEN = (ConnectionError, IncompleteReadError, ReadTimeoutError, ResponseStreamingError)


class Downloads(Transfers):
    """Downloads into files; what is in a file before its transfer is done is not whole."""

    def __init__(self, client: Any, bucket: str, prefix: str) -> None:
        """Start the workers.

        Args:
            client: boto3's.
            bucket: Where from.
            prefix: What keys are relative to.
        """
        super().__init__()
        self._client = client
        self._bucket = bucket
        self._prefix = prefix
        self._pool = ThreadPoolExecutor(min(CONCURRENCY, max(_LEAST_WORKERS, os.cpu_count() or 1)))
        self._own = threading.local()

    def download(self, key: str, path: Path, size: int) -> None:
        """Start a download.

        Args:
            key: Which object.
            path: The file, which is made anew.
            size: Of the object, in bytes; of a longer one the rest stays away.
        """
        path.write_bytes(b"")
        self._start("downloading", key, path, lambda: _Parts([self._submit(key, path, *part) for part in _parts(size)]))

    def _shut_down(self) -> None:
        self.cancel()
        self._pool.shutdown(cancel_futures=True)

    def _submit(self, key: str, path: Path, begin: int, end: int) -> Future[None]:
        return self._pool.submit(self._part, key, path, begin, end)

    def _part(self, key: str, path: Path, begin: int, end: int) -> None:
        """Bring one part; where the connection breaks, it goes on from there."""
        failures = 0
        with path.open("r+b", buffering=0) as file:
            while failures < _ATTEMPTS:
                file.seek(begin)
                try:
                    self._read(key, file, begin, end)
                except _BROKEN:
                    reached = file.tell()
                    failures = failures + 1 if reached == begin else 0
                    begin = reached
                    if failures == _ATTEMPTS:
                        raise
                else:
                    return

    def _read(self, key: str, file: FileIO, begin: int, end: int) -> None:
        """Read from `begin` on until `end` or the end of the object."""
        if self._cut_off:
            raise CancelledError
        answer = self._client.get_object(Bucket=self._bucket, Key=self._prefix + key, Range=f"bytes={begin}-{end - 1}")
        buffer, left = self._buffer(), end - begin
        with closing(answer["Body"]) as body:
            while left and (got := body.readinto(buffer[: min(left, len(buffer))])):
                if self._cut_off:
                    raise CancelledError
                written = 0
                while written < got:  # a disk that fills up takes a piece of it before it refuses
                    written += file.write(buffer[written:got])
                left -= got

    def _buffer(self) -> memoryview:
        """This worker's memory."""
        if not hasattr(self._own, "buffer"):
            self._own.buffer = memoryview(bytearray(_CHUNK_BYTES))
        buffer: memoryview = self._own.buffer
        return buffer


class _Parts:
    """The parts of one file, as one transfer."""

    def __init__(self, futures: list[Future[None]]) -> None:
        self._futures = futures

    def result(self) -> None:
        """Wait for all; the first that failed raises, without waiting for the others."""
        for each in self._futures:
            each.result()

    def cancel(self) -> None:
        """Cut off those that have not begun."""
        for each in self._futures:
            each.cancel()


def _parts(size: int) -> list[tuple[int, int]]:
    """Begin and end of each part; nothing has none.

    >>> _parts(0), len(_parts(PART_BYTES + 1))
    ([], 2)
    """
    return [(begin, min(begin + PART_BYTES, size)) for begin in range(0, size, PART_BYTES)]
