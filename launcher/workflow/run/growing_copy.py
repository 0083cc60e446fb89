"""A copy of a file that grows elsewhere, which several commands may bring up to date at the same moment.

`launch` follows a job, and somebody asks for its `status` or its `logs` meanwhile: each brings the same copy up to
date. A piece is therefore written where it stands in the original, never at the end of the copy, so that two who bring
the same piece write the same bytes at the same place. A copy that has to be begun anew is made beside the old one and
takes its place when it is up to date; who still writes to the old one by then spoils nothing.
"""

import os
import secrets
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from launcher.submit.jobs import Chunk


class GrowingCopy:
    """The copy at a path, open as long as the block lasts; `size` is how much of the original is in it."""

    def __init__(self, path: Path) -> None:
        """Open what there is."""
        self._path = path
        self._anew: Path | None = None
        self._stream: BinaryIO | None = None
        self.size = 0
        if path.is_file():
            self._stream = _opened(path)
            self.size = self._stream.seek(0, os.SEEK_END)

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it; one that was begun anew takes the place of the old one if nothing went wrong."""
        if self._stream is not None:
            self._stream.close()
        if self._anew is not None and problem is None:
            self._anew.replace(self._path)
        elif self._anew is not None:
            self._anew.unlink(missing_ok=True)

    def take(self, chunk: Chunk) -> bool:
        """Write a piece of the original that was read from `size` on; whether there is more to read."""
        if chunk.size < self.size:
            self._begin_anew()
            return True
        if self._stream is None:
            self._stream = _opened(self._path)
        self._stream.seek(self.size)
        self._stream.write(chunk.data)
        self._stream.flush()
        self.size += len(chunk.data)
        return bool(chunk.data) and chunk.size > self.size

    def _begin_anew(self) -> None:
        """The original was begun anew; so is the copy, and nobody sees less of it than before."""
        if self._stream is not None:
            self._stream.close()
        if self._anew is None:
            self._anew = self._path.with_name(f".{self._path.name}.{secrets.token_hex(4)}")
        self._anew.unlink(missing_ok=True)
        self._stream, self.size = _opened(self._anew), 0


def _opened(path: Path) -> BinaryIO:
    """A file to write into at any place, made where there is none."""
    return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666), "r+b")
