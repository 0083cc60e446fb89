"""Reads files that a job's pods wrote to the store, from an offset (launcher/agent/store/journal.py writes them)."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

from launcher.agent.attempt_state import CANCEL_FILE
from launcher.model.aws_results import StoredObject
from launcher.model.errors import AwsError
from launcher.submit.jobs import Chunk, UnreachableError


class Pieces(Protocol):
    """The objects below one prefix in S3."""

    def list_objects(self, *, below: str = "", after: str = "") -> Sequence[StoredObject]:
        """All objects whose keys begin with `below`, sorted by key; only those after the key `after`, if set."""

    def read(self, key: str) -> bytes:
        """The content of an object."""

    def put(self, key: str, data: bytes) -> None:
        """Write an object."""


def mark_cancelled(pieces: Pieces) -> None:
    """Record that a person cancels the job: its agents read the mark when their pods get SIGTERM.

    A store that refuses stops no cancel: the agents then take it for an interruption, and the report says `cancel`.
    """
    with suppress(AwsError):
        pieces.put(CANCEL_FILE, b"")


def read(pieces: Pieces, name: str, offset: int, most: int) -> Chunk | None:
    """Return the content of a file from an offset.

    Returns:
        The next bytes; `size` is the size of the complete file. None if the file does not exist.

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
