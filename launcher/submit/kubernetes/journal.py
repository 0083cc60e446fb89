"""What a job's pods have kept in the store, read from an offset on (launcher/agent/store/journal.py writes it)."""

from collections.abc import Sequence
from typing import Protocol

from launcher.submit.jobs import Chunk, UnreachableError


class Piece(Protocol):
    """One object: its key and its size."""

    @property
    def key(self) -> str:
        """Relative to the place."""

    @property
    def bytes(self) -> int:
        """Its size."""


class Pieces(Protocol):
    """The objects of one place in S3."""

    def list_objects(self, *, below: str = "", after: str = "") -> Sequence[Piece]:
        """All whose keys begin so, by their keys, the later ones alone where a key is given."""

    def read(self, key: str) -> bytes:
        """The content of one."""


def read(pieces: Pieces, name: str, offset: int, most: int) -> Chunk | None:
    """What a file holds from an offset on.

    Returns:
        The next bytes; `size` is the whole file's. None where there is no such file.

    Raises:
        UnreachableError: a part of the journal is missing.
    """
    # The piece that holds the offset begins before it: it is the last one that is not later.
    listed = [(int(piece.key.rpartition("/")[2]), piece) for piece in pieces.list_objects(below=f"{name}/")]
    if not listed:
        return None
    begin, last = listed[-1]
    size, data = begin + last.bytes, b""
    for start, stored_piece in listed:
        if start + stored_piece.bytes <= offset + len(data) or len(data) >= most:
            continue
        if start > offset + len(data):
            raise UnreachableError(f"{name}: nothing from {offset + len(data)} to {start} is in the store")
        data += pieces.read(stored_piece.key)[offset + len(data) - start :]
    return Chunk(data=data[:most], size=size)
