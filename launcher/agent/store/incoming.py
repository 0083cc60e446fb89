"""One object during its download into a file: the next part, and the hash over the parts in order."""

import hashlib
import threading
from collections import deque
from concurrent.futures import CancelledError, Future
from pathlib import Path

from launcher.agent.store.transfers import PART_BYTES

_MAX_OF_PARTS = 4
_PARTS_OF_A_FILE = 16


class Incoming:
    """A file that several workers may fill, each its own part.

    The hash is updated with the part that continues it, while that part is in memory. A part that another worker
    downloaded earlier is read again from the file when its turn comes.
    """

    def __init__(self, key: str, path: Path, size: int) -> None:
        self.key = key
        self.path = path
        self._parts = deque(parts(size))
        self._size = size
        self._ahead: dict[int, int] = {}  # begin and end of what has arrived and is not hashed
        self._digest = hashlib.sha256()
        self._hashed = 0
        self._hashing = False
        self._ended: Future[str] = Future()
        self._lock = threading.Lock()
        self._end_if_complete()

    @property
    def remaining(self) -> int:
        """The number of parts that no worker has taken."""
        return len(self._parts)

    def result(self) -> str:
        """Wait for the complete file; return the SHA-256 of its content, hexadecimal. Raises a failed part's error."""
        return self._ended.result()

    def cancel(self) -> None:
        """Cancel the download: parts that have not started do not start."""
        self.fail(CancelledError())

    def fail(self, error: BaseException) -> None:
        """End the download with an error; only the first error counts."""
        with self._lock:
            self._parts.clear()
            if not self._ended.done():
                self._ended.set_exception(error)

    def take(self) -> "FilePart | None":
        """The next part, assigned to the caller; None if none is left."""
        with self._lock:
            if not self._parts:
                return None
            begin, end = self._parts.popleft()
            along = not self._hashing and self._hashed == begin
            self._hashing = self._hashing or along
            return FilePart(begin, end, self._digest if along else None)

    def record_part(self, part: "FilePart", buffer: memoryview) -> None:
        """Record a part that is in the file, and hash the content that now continues the hash."""
        with self._lock:
            if part.hashed:
                self._end_hashing(part.end)
            else:
                self._ahead[part.begin] = part.end
        while (end := self._next()) is not None:
            self._read(end, buffer)
            with self._lock:
                self._end_hashing(end)

    def _next(self) -> int | None:
        """The end of what the caller must hash now; None: it has not arrived, another worker hashes, or all is over."""
        with self._lock:
            if self._ended.done() or self._hashing or self._hashed not in self._ahead:
                return None
            self._hashing = True
            return self._ahead.pop(self._hashed)

    def _read(self, end: int, buffer: memoryview) -> None:
        remaining = end - self._hashed
        with self.path.open("rb", buffering=0) as file:
            file.seek(self._hashed)
            while remaining and (count := file.readinto(buffer[: min(remaining, len(buffer))])):
                self._digest.update(buffer[:count])
                remaining -= count

    def _end_hashing(self, end: int) -> None:
        self._hashed, self._hashing = end, False
        self._end_if_complete()

    def _end_if_complete(self) -> None:
        if self._hashed == self._size and not self._ended.done():
            self._ended.set_result(self._digest.hexdigest())


class FilePart:
    """A part of a file, assigned to one worker.

    Attributes:
        begin: Its first byte.
        reached: Its first byte that is not in the file yet.
        end: The byte after its last byte.
        hashed: Whether the file's hash is updated with this part.
    """

    def __init__(self, begin: int, end: int, digest: "hashlib._Hash | None") -> None:
        """A part without content yet; `digest` covers everything before it; None: another worker continues the hash."""
        self.begin = self.reached = begin
        self.end = end
        self.hashed = digest is not None
        self._digest = digest

    def reaches(self, content: memoryview) -> None:
        """Record content that is in the file now."""
        self.reached += len(content)
        if self._digest is not None:
            self._digest.update(content)


def parts(size: int) -> list[tuple[int, int]]:
    """Begin and end of each part; none if `size` is 0. Large files have larger parts: a request costs as much as 2 MiB.

    >>> parts(0), len(parts(PART_BYTES + 1)), len(parts(1000 * PART_BYTES))
    ([], 2, 250)
    """
    part_bytes = max(PART_BYTES, min(_MAX_OF_PARTS * PART_BYTES, size // _PARTS_OF_A_FILE))
    return [(begin, min(begin + part_bytes, size)) for begin in range(0, size, part_bytes)]
