"""Parallel downloads: objects in parts, each read into existing memory and written to its final position.

boto3's transfer manager allocates memory at every read and writes with one thread; on two CPUs it needed twice as
long (`python -m benchmarks.checkpoint`).
"""

import os
import threading
from collections import deque
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import closing
from http.client import HTTPException, HTTPResponse
from io import FileIO
from pathlib import Path
from typing import Any

from botocore.exceptions import IncompleteReadError, ReadTimeoutError, ResponseStreamingError
from urllib3.exceptions import HTTPError

from launcher.agent.store.incoming import FilePart, Incoming
from launcher.agent.store.transfers import Transfers

# The body of a response, read into existing memory.
#
# `readinto` of urllib3 2.8 allocates memory, reads into that, and copies it while it holds the interpreter lock:
# of a large restore on two processors a quarter of the time. Below it lies the response of `http.client`, which reads
# from the socket into the memory it is given. The agent brings its own urllib3; where that looks otherwise one day,
# its own `readinto` is used.

_READ_BYTES = 1024 * 1024
"""Buffer of every worker. 4 MiB gave fewer switches of the interpreter, but as much more time in the kernel."""
_WRITE_BYTES = 64 * 1024
"""The kernel allocates as much contiguous memory as a write has. A virtual machine's host must first find large pieces:
after other programs had filled the memory, writes of 1 MiB needed up to twice as long in total. Smaller writes cost
calls: 16 KiB need a fifth more CPU time for a download than 64 KiB (768 MiB, 1.24 s and 0.99 s)."""
_MIN_WORKERS = 3
"""More threads than CPUs compete for the interpreter: ten threads on two CPUs reached half the rate of three."""
_MAX_WORKERS = 32
"""S3 delivers 85 to 90 MB/s per connection (S3 User Guide, "Performance guidelines: scale storage connections
horizontally", read 2026-11-22): this many connections deliver some 2.8 GB/s."""
WORKERS = min(_MAX_WORKERS, max(_MIN_WORKERS, os.cpu_count() or 1))
"""One worker per CPU: 32 on the nodes that train."""
_ATTEMPTS = 5
"""Consecutive tries of a part that receive no byte; boto3's transfer manager tries as often."""
_BROKEN = (ConnectionError, IncompleteReadError, ReadTimeoutError, ResponseStreamingError)


class Body:
    """The body of one response, with a length that S3 has reported."""

    def __init__(self, stream: Any, length: int) -> None:
        self._stream = stream
        self._left = self._length = length
        self._raw = getattr(stream, "_raw_stream", None)
        fp = getattr(self._raw, "_fp", None)
        self._plain = fp if isinstance(fp, HTTPResponse) and not fp.chunked and fp.length == length else None

    def read_into(self, buffer: memoryview) -> int:
        """Read until the buffer is full or the body ends; return the number of bytes, 0 at the end.

        Raises:
            IncompleteReadError: the body ends before its length.
            ResponseStreamingError: the connection is no longer usable.
            ReadTimeoutError: no byte arrived for too long.
        """
        try:
            count = int((self._stream if self._plain is None else self._plain).readinto(buffer))
        except (HTTPError, HTTPException, OSError) as error:
            raise ResponseStreamingError(error=error) from error
        self._left -= count
        if self._plain is not None and not count and len(buffer) and self._left:
            raise IncompleteReadError(actual_bytes=self._length - self._left, expected_bytes=self._length)
        return count

    def close(self) -> None:
        """Return the connection to the pool if all was read, else end it."""
        if self._plain is not None and self._left == 0 and self._raw is not None:
            self._raw.release_conn()
        self._stream.close()


class Downloads(Transfers):
    """Downloads into files; a file is incomplete until its transfer is done."""

    def __init__(self, client: Any, bucket: str, prefix: str) -> None:
        super().__init__()
        self._client = client
        self._bucket = bucket
        self._prefix = prefix
        self._workers = WORKERS
        self._pool = ThreadPoolExecutor(self._workers)
        self._own = threading.local()
        self._lock = threading.Lock()
        self._untouched: deque[Incoming] = deque()
        self._begun: list[Incoming] = []

    def download(self, key: str, path: Path, size: int) -> Incoming:
        """Start a download.

        If an object is longer than `size`, the rest is not downloaded.

        The result of the returned file is the SHA-256 of the content that arrived.
        """
        path.write_bytes(b"")
        file = Incoming(key, path, size)
        self._start("downloading", key, lambda: self._submit(file))
        return file

    def _submit(self, file: Incoming) -> Incoming:
        number = file.remaining  # before a worker that is free takes of it
        with self._lock:
            self._untouched.append(file)
        for _ in range(min(number, self._workers)):
            self._pool.submit(self._work)
        return file

    def _shut_down(self) -> None:
        self.cancel()
        self._pool.shutdown(cancel_futures=True)

    def _work(self) -> None:
        """Download parts until no file needs another worker."""
        file = None
        while True:
            with self._lock:
                file = file if file and file.remaining else self._choose()
                part = None if file is None else file.take()
            if file is None:
                return
            if part is None:  # it failed meanwhile
                continue
            try:
                self._bring(file, part)
                file.record_part(part, self._buffer())
            except BaseException as error:  # noqa: BLE001  whoever waits for the file raises it
                file.fail(error)

    def _choose(self) -> Incoming | None:
        """A file without a worker, else the one with most parts left; a worker stays with its file to hash it too."""
        while self._untouched:
            file = self._untouched.popleft()
            if file.remaining:
                self._begun.append(file)
                return file
        self._begun = [file for file in self._begun if file.remaining]
        return max(self._begun, key=lambda file: file.remaining, default=None)

    def _bring(self, file: Incoming, part: FilePart) -> None:
        """Download one part; if the connection breaks, continue from the last byte received."""
        failures = 0
        with file.path.open("r+b", buffering=0) as target:
            while failures < _ATTEMPTS:
                before = part.reached
                target.seek(before)
                try:
                    self._read(file.key, target, part)
                except _BROKEN:
                    failures = failures + 1 if part.reached == before else 0
                    if failures == _ATTEMPTS:
                        raise
                else:
                    return

    def _read(self, key: str, file: FileIO, part: FilePart) -> None:
        if self._cut_off:
            raise CancelledError
        byte_range = f"bytes={part.reached}-{part.end - 1}"
        answer = self._client.get_object(Bucket=self._bucket, Key=self._prefix + key, Range=byte_range)
        buffer = self._buffer()
        with closing(Body(answer["Body"], int(answer["ContentLength"]))) as body:
            while (remaining := part.end - part.reached) and (
                count := body.read_into(buffer[: min(remaining, len(buffer))])
            ):
                if self._cut_off:
                    raise CancelledError
                written = 0
                while written < count:  # a disk that fills up takes a piece of it before it refuses
                    written += file.write(buffer[written : min(count, written + _WRITE_BYTES)])
                part.reaches(buffer[:count])

    def _buffer(self) -> memoryview:
        if not hasattr(self._own, "buffer"):
            self._own.buffer = memoryview(bytearray(_READ_BYTES))
        buffer: memoryview = self._own.buffer
        return buffer
