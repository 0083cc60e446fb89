"""One object on its way into a file: which part comes next, and the hash that follows them in order."""

import hashlib
import threading
from collections import deque
from concurrent.futures import CancelledError, Future
from pathlib import Path

from launcher.agent.store.transfers import PART_BYTES

_MOST_OF_PARTS = 4
_PARTS_OF_A_FILE = 16


class Incoming:
    """A file that several workers may fill, each its own part.

    The hash goes along with the part that continues it, while that is in memory anyway. A part that another worker
    brought ahead of it is read again from the file when its turn comes.
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
        self._end_if_whole()

    @property
    def left(self) -> int:
        """How many parts nobody has taken."""
        return len(self._parts)

    def result(self) -> str:
        """Wait for all of it; the SHA-256 of its content, hexadecimal. What went wrong with a part is raised."""
        return self._ended.result()

    def cancel(self) -> None:
        """Cut it off: parts that have not begun do not begin."""
        self.fail(CancelledError())

    def fail(self, error: BaseException) -> None:
        """End it with an error; the first one stands."""
        with self._lock:
            self._parts.clear()
            if not self._ended.done():
                self._ended.set_exception(error)

    def take(self) -> "Part | None":
        """The next part, for the one who asks; None: there is none left."""
        with self._lock:
            if not self._parts:
                return None
            begin, end = self._parts.popleft()
            along = not self._hashing and self._hashed == begin
            self._hashing = self._hashing or along
            return Part(begin, end, self._digest if along else None)

    def arrived(self, part: "Part", buffer: memoryview) -> None:
        """Count in a part that stands in the file, and hash what now continues the hash."""
        with self._lock:
            if part.hashed:
                self._followed(part.end)
            else:
                self._ahead[part.begin] = part.end
        while (end := self._next()) is not None:
            self._read(end, buffer)
            with self._lock:
                self._followed(end)

    def _next(self) -> int | None:
        """The end of what the caller is to hash now; None: it is not here, another worker is at it, or all is over."""
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

    def _followed(self, end: int) -> None:
        self._hashed, self._hashing = end, False
        self._end_if_whole()

    def _end_if_whole(self) -> None:
        if self._hashed == self._size and not self._ended.done():
            self._ended.set_result(self._digest.hexdigest())


class Part:
    """A part of a file, in the hands of one worker.

    Attributes:
        begin: Its first byte.
        reached: Its first byte that does not stand in the file yet.
        end: The byte after its last.
        hashed: Whether the file's hash goes along with it.
    """

    def __init__(self, begin: int, end: int, digest: "hashlib._Hash | None") -> None:
        """Nothing of it has arrived; `digest` has everything before it, or is not its to continue."""
        self.begin = self.reached = begin
        self.end = end
        self.hashed = digest is not None
        self._digest = digest

    def reaches(self, content: memoryview) -> None:
        """Count in what stands in the file now."""
        self.reached += len(content)
        if self._digest is not None:
            self._digest.update(content)


def parts(size: int) -> list[tuple[int, int]]:
    """Begin and end of each part; nothing has none. Of a large file they are larger: a request costs what 2 MiB cost.

    >>> parts(0), len(parts(PART_BYTES + 1)), len(parts(1000 * PART_BYTES))
    ([], 2, 250)
    """
    part_bytes = max(PART_BYTES, min(_MOST_OF_PARTS * PART_BYTES, size // _PARTS_OF_A_FILE))
    return [(begin, min(begin + part_bytes, size)) for begin in range(0, size, part_bytes)]
