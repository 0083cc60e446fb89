"""A node's files, stored while they are written: a lost node loses only the last seconds.

Each file is a sequence of objects, `<name>/<offset>`, each beginning where the previous one ends, so that a reader
requests only new ones. If two writers run together, the first object at an offset stays and the other writer appends
to it.
"""

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from launcher.agent.errors import StoreError
from launcher.agent.store.objects import Store

FLUSH_S, LONGEST_FLUSH_S = 5.0, 60.0
_SLOWER = 100.0
"""The time between two polls is a hundredth of the node's run time: a month leaves some 100,000 objects."""
_DIGITS = 15
_CHUNK = 4_000_000


@dataclass(slots=True, kw_only=True)
class _JournalFile:
    """One file: a function that reads its newest bytes, and its length in the store, including earlier attempts.

    `sent` receives the number of bytes that were stored.
    """

    read: Callable[[], bytes]
    sent: Callable[[int], None]
    offset: int | None = None
    pending: bytes = b""


def key_of(name: str, offset: int) -> str:
    """The key of a piece.

    >>> key_of("events.jsonl", 4096)
    'events.jsonl/000000000004096'
    """
    return f"{name}/{offset:0{_DIGITS}d}"


def end_of(sizes: dict[str, int]) -> int:
    """The length of a file, from its pieces.

    >>> end_of({key_of("a", 0): 10, key_of("a", 10): 5})
    15
    """
    return max((int(key.rpartition("/")[2]) + size for key, size in sizes.items()), default=0)


class Journal(threading.Thread):
    """Copies files of this node to the store."""

    def __init__(self, store: Store, on_problem: Callable[[str], None]) -> None:
        super().__init__(name="journal", daemon=True)
        self._store = store
        self._on_problem = on_problem
        self._files: dict[str, _JournalFile] = {}
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._problem_reported = False

    def keep(self, name: str, read: Callable[[], bytes], sent: Callable[[int], None] = lambda _: None) -> None:
        """Store the bytes that `read` returns: those since its last call. `sent` receives the number stored."""
        self._files[name] = _JournalFile(read=read, sent=sent)

    def keep_file(self, name: str, path: Path) -> None:
        """Store the bytes that are appended to a file."""
        tail = Tail(path)
        self.keep(name, tail, tail.record_sent)

    def run(self) -> None:
        """Poll at growing intervals."""
        begun = time.monotonic()
        while not self._over.wait(min(LONGEST_FLUSH_S, max(FLUSH_S, (time.monotonic() - begun) / _SLOWER))):
            self.flush()

    def finish(self, *, within_s: float) -> None:
        """Store the rest, and stop; bytes that the store does not accept in time are lost."""
        self._over.set()
        deadline = time.monotonic() + within_s
        while not self.flush() and time.monotonic() < deadline:
            time.sleep(0.5)

    def flush(self) -> bool:
        """Store new bytes; return whether all were accepted."""
        with self._lock:
            try:
                for name, file in self._files.items():
                    file.pending += file.read()
                    self._send(name, file)
            except StoreError as error:
                if not self._problem_reported:
                    self._problem_reported = True
                    self._on_problem(str(error))
                return False
        return True

    def _send(self, name: str, file: _JournalFile) -> None:
        while file.pending:
            if file.offset is None:
                file.offset = end_of(self._store.sizes(f"{name}/"))
            piece = file.pending[:_CHUNK]
            if not self._store.put_new(key_of(name, file.offset), piece):
                file.offset = None  # another writer was here
                continue
            file.offset += len(piece)
            file.pending = file.pending[len(piece) :]
            file.sent(len(piece))


class Tail:
    """The bytes appended to a file since the last call.

    An operator restarts a container in its pod, whose disk still has the file. A file next to it records how much was
    sent, so that nothing is sent twice and bytes that the earlier container had no time to send are sent now.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._mark = path.with_name(f"{path.name}.sent")
        self._sent = self._offset = self._read_mark()

    def _read_mark(self) -> int:
        try:
            mark = int(self._mark.read_text(encoding="utf-8"))
            return mark if 0 <= mark <= self._path.stat().st_size else 0
        except (OSError, ValueError):
            return 0

    def record_sent(self, count: int) -> None:
        """Record that so many bytes need not be sent again; if the record cannot be written, they are sent again."""
        self._sent += count
        with contextlib.suppress(OSError):
            fresh = self._mark.with_name(f"{self._mark.name}.new")
            fresh.write_text(f"{self._sent}\n", encoding="utf-8")
            fresh.replace(self._mark)

    def __call__(self) -> bytes:
        """The new bytes of the file; empty if none exist."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                data = file.read()
        except OSError:
            return b""
        self._offset += len(data)
        return data
