"""Files that users' files name: regular, of bounded size, and inside a folder where one is given.

A branch of somebody else's is priced without being trusted: its `train.py` may be a link to /dev/zero, which never
ends, a FIFO, which never begins, or a link to a file of the machine that prices it.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

KINDS = (
    (stat.S_ISDIR, "it is a folder"),
    (stat.S_ISCHR, "it is a device"),
    (stat.S_ISBLK, "it is a device"),
    (stat.S_ISFIFO, "it is a named pipe"),
    (stat.S_ISSOCK, "it is a socket"),
)
STREAMS = {("/", "dev"), ("/", "proc")}
"""Where /dev/stdin and the pipes of a shell's <(...) are: these end with the program that writes them."""
_PIPED: dict[tuple[int, int], bytes] = {}
"""The content of each pipe that was read, by device and inode: a pipe can be read only once."""
_BLOCK = 1 << 20
_MIB = 1 << 20


class UnusableFileError(ValueError):
    """Why a file is not read, as the end of a sentence: "it is a device"."""


@contextmanager
def opened_regular(path: Path, *, within: Path | None = None) -> Iterator[BinaryIO]:
    """A regular file, open for reading.

    Args:
        path: of the file.
        within: the folder that the file must be in, links followed; None: any folder.

    Raises:
        UnusableFileError: the file is no regular file, or a link leads out of the folder.
        OSError: it cannot be opened.
    """
    place = path
    if within is not None:
        place = Path(os.path.realpath(path))
        if not place.is_relative_to(os.path.realpath(within)):
            raise UnusableFileError(f"it is a link that leaves the folder {within}")
    # Looked at before it is opened, since to open a device may act on it, and after, since names can change.
    _refuse_irregular(place.stat())
    # Without O_NONBLOCK, a FIFO that takes the file's place would block here, and /proc/kmsg at the first read.
    descriptor = os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    with open(descriptor, "rb") as stream:  # noqa: PTH123 - a descriptor
        _refuse_irregular(os.fstat(descriptor))
        yield stream


def read_regular(path: Path, most: int, *, within: Path | None = None) -> bytes:
    """The content of a regular file of at most `most` bytes; see `opened_regular`.

    Raises:
        UnusableFileError: the file is larger as well.
        OSError: it cannot be read.
    """
    with opened_regular(path, within=within) as stream:
        return _read_bounded(stream, most)


def mode_of(path: Path) -> int:
    """The mode of what a path names; 0 if it names nothing, or no file can have its name (too long, a null byte)."""
    try:
        return path.stat().st_mode
    except (OSError, ValueError):
        return 0


def read_named(path: Path, most: int) -> bytes:
    """The content of a file that the user typed: a regular file, or a pipe such as /dev/stdin.

    Raises:
        UnusableFileError: it is neither, or larger than `most` bytes.
        OSError: it cannot be read.
    """
    if is_stream(path) and stat.S_ISFIFO((status := path.stat()).st_mode):
        pipe = (status.st_dev, status.st_ino)
        if pipe not in _PIPED:
            with path.open("rb") as stream:
                _PIPED[pipe] = _read_bounded(stream, most)
        return _PIPED[pipe]
    return read_regular(path, most)


def is_stream(path: Path) -> bool:
    """Whether a path is /dev/stdin or a pipe of a shell's <(...): another command cannot read it again."""
    return path.parts[:2] in STREAMS


def folder_of(path: Path) -> Path:
    """The folder to which the paths in a file are relative: its own, links followed; for a stream the current one."""
    return Path.cwd() if is_stream(path) else path.resolve().parent


def _refuse_irregular(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise UnusableFileError(next((reason for check, reason in KINDS if check(status.st_mode)), "it is no file"))


def _read_bounded(stream: BinaryIO, most: int) -> bytes:
    # Its size is not asked: files of /proc say 0, and another process may be writing it.
    content = bytearray()
    while len(content) <= most and (block := stream.read(min(_BLOCK, most + 1 - len(content)))):
        content += block
    if len(content) > most:
        limit = f"{most / _MIB:,.0f} MiB" if most >= _MIB else f"{most:,} bytes"
        raise UnusableFileError(f"it is larger than {limit}")
    return bytes(content)
