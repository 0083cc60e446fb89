"""Space on the node's disk for the agent's records, which a trainer that fills the disk must not take."""

import contextlib
import errno
import os
from pathlib import Path

RESERVE_BYTES = 1 << 20
"""The records of a job are some kilobytes; the rest is for the entries of folders and for other jobs' agents."""
RESERVE_INODES = 64
"""An attempt of the agent creates some ten files and folders; the trainer's next checkpoint takes others."""
_NAME = ".reserve"
FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_PARTIAL_SUFFIX = ".tmp"


class Reserve:
    """A file that is removed when the disk is full, so that the next record fits."""

    def __init__(self, folder: Path) -> None:
        """`folder` is the one that all agents of this user share on the disk."""
        self._path = folder / _NAME

    def fill(self) -> None:
        """Create the reserve, if the disk has room; a disk without room, or a failure, leaves none."""
        try:
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o600)
        except OSError:
            return
        try:
            os.posix_fallocate(descriptor, 0, RESERVE_BYTES)
        except OSError:
            self.spend()
        finally:
            os.close(descriptor)

    def spend(self) -> bool:
        """Remove the reserve; return whether there was one."""
        with contextlib.suppress(OSError):
            self._path.unlink()
            return True
        return False

    def replace(self, path: Path, text: str) -> None:
        """Write a record whole or not at all; if the disk is full, spend the reserve and try again.

        Raises:
            OSError: the record cannot be written.
        """
        try:
            _replace(path, text)
        except OSError as error:
            if error.errno not in FULL or not self.spend():
                raise
            _replace(path, text)


def has_inodes(folder: Path) -> bool:
    """Whether the disk of a folder can hold the next files; a file system without a limit reports 0 of 0."""
    status = os.statvfs(folder)
    return not status.f_files or status.f_favail >= RESERVE_INODES


def _replace(path: Path, text: str) -> None:
    partial = path.with_name(path.name + _PARTIAL_SUFFIX)
    try:
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            partial.unlink()  # an empty or cut file would take the room of the next record
        raise
