"""The entries of a folder that a rename created: only the kernel (inotify) reports renames, a later scan cannot."""

import ctypes
import os
import struct
import weakref
from pathlib import Path

# <sys/inotify.h>, the same on every architecture of Linux
_IN_MOVED_FROM = 0x00000040
_IN_MOVED_TO = 0x00000080
_IN_CREATE = 0x00000100
_IN_DELETE = 0x00000200
_IN_Q_OVERFLOW = 0x00004000
_IN_ONLYDIR = 0x01000000
_EVENT = struct.Struct("iIII")  # watch, mask, cookie, length of the name that follows
_BUFFER_BYTES = 64 * 1024


class RenameWatch:
    """The names in one folder that were last created by a rename; empty if the system has no inotify."""

    def __init__(self, folder: Path) -> None:
        self.problem = ""
        """The reason why the kernel reports no renames; empty if it does."""
        self._descriptor: int | None = None
        self._names: set[str] = set()
        self.unproven: set[str] = set()
        """Of these names events were lost: each may be that of a folder that is still being written."""
        try:
            self._folder = folder
            self._descriptor = _watch(folder)
        except OSError as error:
            self.problem = str(error)
        else:
            # A user may have 128 of them (fs.inotify.max_user_instances).
            self._close = weakref.finalize(self, os.close, self._descriptor)

    def names(self) -> frozenset[str]:
        """Every name that a rename created and that was neither created again nor removed since."""
        while self._descriptor is not None:
            try:
                buffer = os.read(self._descriptor, _BUFFER_BYTES)
            except BlockingIOError:
                break
            self._take(buffer)
        return frozenset(self._names)

    def close(self) -> None:
        """Stop watching."""
        if self._descriptor is not None:
            self._close()
            self._descriptor = None

    def _take_all(self) -> None:
        """After lost events: every present name may have been created by a rename, and counts as such.

        The kernel drops events beyond fs.inotify.max_queued_events (16,384 by default), and says so in one.
        """
        try:
            self._names = {path.name for path in self._folder.iterdir()}
        except OSError:
            self._names = set()
        self.unproven = set(self._names)

    def _take(self, buffer: bytes) -> None:
        offset = 0
        while offset < len(buffer):
            _, mask, _, length = _EVENT.unpack_from(buffer, offset)
            offset += _EVENT.size
            name = os.fsdecode(buffer[offset : offset + length].rstrip(b"\0"))
            offset += length
            if mask & _IN_Q_OVERFLOW:
                self._take_all()
            elif mask & _IN_MOVED_TO:
                self._names.add(name)
                self.unproven.discard(name)
            elif mask & (_IN_CREATE | _IN_DELETE | _IN_MOVED_FROM):
                self._names.discard(name)


def _watch(folder: Path) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "inotify_init1"):
        raise OSError("this system has no inotify")
    descriptor: int = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    if descriptor < 0:
        raise _error("inotify_init1")
    mask = _IN_MOVED_FROM | _IN_MOVED_TO | _IN_CREATE | _IN_DELETE | _IN_ONLYDIR
    if libc.inotify_add_watch(descriptor, os.fsencode(folder), ctypes.c_uint32(mask)) < 0:
        error = _error("inotify_add_watch")
        os.close(descriptor)
        raise error
    return descriptor


def _error(function: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"{function}: {os.strerror(number)}")
