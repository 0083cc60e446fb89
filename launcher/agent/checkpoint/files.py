"""The content of a checkpoint folder on the node: the files that are stored, and entries that cannot be stored.

A link to a file is stored as that file, wherever the file is (Hugging Face's caches consist of such links). A link to a
folder of the same checkpoint is followed. A link to a folder elsewhere is refused: it may lead to a data set.
"""

import errno
import hashlib
import os
import stat
import zipfile
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from launcher.agent.errors import UnusableCheckpointError

_CHUNK_BYTES = 1 << 22
_MAX_FILES = 1_000_000
_KINDS = (
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)

_Id = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalFile:
    """A file as it was found: path below the folder, size in bytes, modification time and inode.

    `changed_ns` is the time of the inode's last change: a write that keeps size and modification time (`rsync -t`,
    `cp -p`, `touch -r`) moves it. 0 in records of earlier versions.
    """

    path: str
    bytes: int
    modified_ns: int
    inode: int
    changed_ns: int = 0

    @classmethod
    def of(cls, path: str, status: os.stat_result) -> "LocalFile":
        """The file of a path in the folder, from its status."""
        return cls(
            path=path,
            bytes=status.st_size,
            modified_ns=status.st_mtime_ns,
            inode=status.st_ino,
            changed_ns=status.st_ctime_ns,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """The content of a folder: files, sorted by path, and the first entry that cannot be stored; empty if all can."""

    files: tuple[LocalFile, ...]
    obstacle: str = ""


def local_files(folder: Path, entries: Collection[str] = ()) -> tuple[LocalFile, ...]:
    """Every file below `folder`, or below some of its entries, sorted by path. Empty folders are omitted.

    Raises:
        UnusableCheckpointError: the folder, or an entry in it, disappeared or cannot be stored.
    """
    files = survey(folder, entries)
    if files.obstacle:
        raise UnusableCheckpointError(f"{folder.name} {files.obstacle}")
    return files.files


def survey(folder: Path, entries: Collection[str] = ()) -> Survey:
    """Scan a folder, or some of its entries.

    Raises:
        UnusableCheckpointError: the folder, or an entry in it, disappeared during the scan; another scan may succeed.
    """
    try:
        if not stat.S_ISDIR(folder.lstat().st_mode):
            return Survey(files=(), obstacle="is not a folder; a checkpoint must be a folder")
        return _Surveyor(folder).survey(entries)
    except FileNotFoundError as error:
        raise UnusableCheckpointError(f"{folder.name}: {error}") from error


def present_entries(folder: Path, entries: Iterable[str], main: str) -> tuple[str, ...]:
    """The entries of a set that exist; all of them without `main`, and `main` in any case: it is what counts."""
    return tuple(name for name in entries if not main or name == main or os.path.lexists(folder / name))


def changed_since(finished: Iterable[LocalFile], now: Iterable[LocalFile]) -> str:
    """Describe the first change since the folder was finished; empty if nothing changed.

    Removed files do not count as a change: a trainer may remove a checkpoint that has been read completely.
    """
    before = {file.path: file for file in finished}
    for file in now:
        earlier = before.get(file.path)
        if earlier is None:
            return f"{file.path} was added"
        if earlier.bytes != file.bytes:
            return f"{file.path} had {earlier.bytes} bytes and has {file.bytes}"
        if earlier != file:
            return f"{file.path} was written again"
    return ""


def are_archives(folder: Path, files: Iterable[LocalFile]) -> bool:
    """Whether all files are zip archives with their directory, which is written last: torch.save, numpy.savez."""
    try:
        return all(zipfile.is_zipfile(folder / file.path) for file in files)
    except OSError:
        return False


def is_same_content(file: LocalFile, status: os.stat_result) -> bool:
    """Whether a status is that of the file as it was found, or of the same file after the trainer removed it."""
    now = LocalFile.of(file.path, status)
    return now == file or (
        (now.inode, now.bytes, now.modified_ns) == (file.inode, file.bytes, file.modified_ns) and not status.st_nlink
    )


def sha256_of(path: Path) -> str:
    """SHA-256 of a file's content, hexadecimal."""
    digest = hashlib.sha256()
    # One large buffer for the whole file: memory allocated at every read costs more than the reading, and
    # between two reads a thread may wait for the interpreter.
    buffer = memoryview(bytearray(_CHUNK_BYTES))
    with path.open("rb", buffering=0) as file:
        while size := file.readinto(buffer):
            digest.update(buffer[:size])
    return digest.hexdigest()


class _Surveyor:
    """One scan of a folder; without recursion, because a folder may be deeper than Python's stack."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._root = os.path.realpath(folder)
        self._files: list[LocalFile] = []
        self._left: list[tuple[str, frozenset[_Id]]] = []
        self._obstacle = ""

    def survey(self, entries: Collection[str]) -> Survey:
        status = self._folder.stat()
        above = frozenset({(status.st_dev, status.st_ino)})
        self._left = [] if entries else [("", above)]
        for name in entries:
            info = (self._folder / name).lstat()
            if stat.S_ISDIR(info.st_mode):
                self._left.append((f"{name}/", above | {(info.st_dev, info.st_ino)}))
            else:
                self._files.append(LocalFile.of(name, info))
        while self._left and len(self._files) <= _MAX_FILES:
            below, above = self._left.pop()
            try:
                with os.scandir(self._folder / below) as inside:
                    for entry in inside:
                        self._take(entry, f"{below}{entry.name}", above)
            except FileNotFoundError:
                raise
            except OSError as error:
                self._refuse(below or ".", f"which cannot be read: {error.strerror}")
        if len(self._files) > _MAX_FILES:
            self._obstacle = f"holds more than {_MAX_FILES:,} files; put them into fewer"
        return Survey(files=tuple(sorted(self._files, key=lambda file: file.path)), obstacle=self._obstacle)

    def _take(self, entry: "os.DirEntry[str]", path: str, above: frozenset[_Id]) -> None:
        try:
            path.encode()
            status = entry.stat()
        except UnicodeEncodeError:
            self._refuse(path, "a name that is not UTF-8")
        except FileNotFoundError:
            if not entry.is_symlink():
                raise
            self._refuse(path, "a link to nothing")
        except OSError as error:
            circular = error.errno == errno.ELOOP
            self._refuse(path, "a circular link" if circular else f"which cannot be read: {error.strerror}")
        else:
            self._take_known(entry, path, status, above)

    def _take_known(self, entry: "os.DirEntry[str]", path: str, status: os.stat_result, above: frozenset[_Id]) -> None:
        if stat.S_ISREG(status.st_mode):
            self._files.append(LocalFile.of(path, status))
        elif stat.S_ISDIR(status.st_mode):
            inode = (status.st_dev, status.st_ino)
            if inode in above:
                self._refuse(path, "a circular link")
            elif entry.is_symlink() and not os.path.realpath(self._folder / path).startswith(f"{self._root}/"):
                self._refuse(
                    path, "a link to a folder outside the checkpoint; copy the needed files into the checkpoint"
                )
            else:
                self._left.append((f"{path}/", above | {inode}))
        else:
            kind = next((word for is_kind, word in _KINDS if is_kind(status.st_mode)), "of an unknown type")
            self._refuse(path, f"{kind}; only files, folders and links to them can be stored")

    def _refuse(self, path: str, reason: str) -> None:
        self._obstacle = self._obstacle or f"holds {path!r}, {reason}"
