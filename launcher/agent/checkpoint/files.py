"""The content of a checkpoint folder on the node: the files that are stored, and entries that cannot be stored.

A link to a file or folder of the same checkpoint is stored as a link. A link to a file elsewhere is stored as that
file: a cache (Hugging Face's consist of such links) or another step may be gone at the restore. A link to a folder
elsewhere is refused: it may lead to a data set.
"""

import errno
import functools
import hashlib
import os
import stat
import zipfile
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from launcher.agent.errors import UnusableCheckpointError
from launcher.agent.manifest_tree import canonical_target

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
    """A file or link as it was found."""

    # Below the folder.
    path: str
    bytes: int
    modified_ns: int
    inode: int
    # The time of the inode's last change: a write that keeps size and modification time (`rsync -t`, `cp -p`, `touch
    # -r`) moves it. 0 in records of earlier versions.
    changed_ns: int = 0
    # The permission bits; 0 in records of earlier versions.
    mode: int = 0
    # The target of a link, relative to its own folder; empty for a file. Links have no content.
    link: str = ""

    @classmethod
    def of(cls, path: str, status: os.stat_result, link: str = "") -> "LocalFile":
        """The file of a path in the folder, from its status, or the link from its own status."""
        return cls(
            path=path,
            bytes=0 if link else status.st_size,
            modified_ns=status.st_mtime_ns,
            inode=status.st_ino,
            changed_ns=status.st_ctime_ns,
            mode=0 if link else stat.S_IMODE(status.st_mode) & 0o777,
            link=link,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """The content of a folder: files and links, sorted by path, and empty folders.

    `obstacle` describes the first entry that cannot be stored; empty if all can.
    """

    files: tuple[LocalFile, ...]
    folders: tuple[str, ...] = ()
    obstacle: str = ""


def with_content(files: Iterable[LocalFile]) -> tuple[LocalFile, ...]:
    """The files without the links."""
    return tuple(file for file in files if not file.link)


def local_files(folder: Path, entries: Collection[str] = (), *, follow: bool = False) -> tuple[LocalFile, ...]:
    """Every file and link below `folder`, or below some of its entries, sorted by path. Empty folders are omitted.

    `follow`: a link to a file or folder below `folder` is as what it leads to, as elsewhere.

    Raises:
        UnusableCheckpointError: the folder, or an entry in it, disappeared or cannot be stored.
    """
    files = survey(folder, entries, follow=follow)
    if files.obstacle:
        raise UnusableCheckpointError(f"{folder.name} {files.obstacle}")
    return files.files


def survey(folder: Path, entries: Collection[str] = (), *, follow: bool = False) -> Survey:
    """Scan a folder, or some of its entries; `follow` as for `local_files`.

    Raises:
        UnusableCheckpointError: the folder, or an entry in it, disappeared during the scan; another scan may succeed.
    """
    try:
        if not stat.S_ISDIR(folder.lstat().st_mode):
            return Survey(files=(), obstacle="is not a folder; a checkpoint must be a folder")
        return _Surveyor(folder, follow=follow).survey(entries)
    except FileNotFoundError as error:
        raise UnusableCheckpointError(f"{folder.name}: {error}") from error


def present_entries(folder: Path, entries: Iterable[str], mains: Collection[str]) -> tuple[str, ...]:
    """The entries of a set that exist; all of them without `mains`, and `mains` in any case: they are what counts."""
    return tuple(name for name in entries if not mains or name in mains or os.path.lexists(folder / name))


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
        return all(zipfile.is_zipfile(folder / file.path) for file in with_content(files))
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Level:
    """One folder of a scan: its prefix, the inodes above it, and where links may lead to be stored as links.

    `root` is the real path of the checkpoint, or of the entry of a set; empty: all links are followed.
    """

    below: str
    above: frozenset[_Id]
    root: str


class _Surveyor:
    """One scan of a folder; without recursion, because a folder may be deeper than Python's stack."""

    def __init__(self, folder: Path, *, follow: bool) -> None:
        self._folder = folder
        self._follow = follow
        self._root = os.path.realpath(folder)
        self._files: list[LocalFile] = []
        self._empty: list[str] = []
        self._left: list[_Level] = []
        self._obstacle = ""
        self._counts_links = True

    def survey(self, entries: Collection[str]) -> Survey:
        status = self._folder.stat()
        above = frozenset({(status.st_dev, status.st_ino)})
        self._counts_links = status.st_nlink > 0
        root = "" if self._follow else self._root
        self._left = [] if entries else [_Level(below="", above=above, root=root)]
        for name in entries:
            info = (self._folder / name).lstat()
            if stat.S_ISDIR(info.st_mode):
                root = "" if self._follow else os.path.realpath(self._folder / name)
                self._left.append(_Level(below=f"{name}/", above=above | {(info.st_dev, info.st_ino)}, root=root))
            else:
                self._check_named(name, info)
                self._files.append(LocalFile.of(name, info))
        while self._left and len(self._files) + len(self._empty) <= _MAX_FILES:
            level, empty = self._left.pop(), True
            try:
                with os.scandir(self._folder / level.below) as inside:
                    for entry in inside:
                        empty = False
                        self._take(entry, f"{level.below}{entry.name}", level)
            except FileNotFoundError:
                raise
            except OSError as error:
                self._refuse(level.below or ".", f"which cannot be read: {error.strerror}")
            self._empty += [level.below[:-1]] if empty and level.below else []
        if len(self._files) + len(self._empty) > _MAX_FILES:
            self._obstacle = f"holds more than {_MAX_FILES:,} files; put them into fewer"
        # Links and folders alone are no checkpoint.
        files = self._files if with_content(self._files) else []
        return Survey(
            files=tuple(sorted(files, key=lambda file: file.path)),
            folders=tuple(sorted(self._empty)) if files else (),
            obstacle=self._obstacle,
        )

    def _take(self, entry: "os.DirEntry[str]", path: str, level: _Level) -> None:
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
            self._take_known(entry, path, status, level)

    def _take_known(self, entry: "os.DirEntry[str]", path: str, status: os.stat_result, level: _Level) -> None:
        inode = (status.st_dev, status.st_ino)
        real = os.path.realpath(self._folder / path) if entry.is_symlink() else ""
        if stat.S_ISDIR(status.st_mode) and inode in level.above:
            self._refuse(path, "a circular link")
        elif real and level.root and real.startswith(f"{level.root}/") and _is_storable(status):
            self._files.append(LocalFile.of(path, entry.stat(follow_symlinks=False), self._target(path, real, level)))
        elif stat.S_ISREG(status.st_mode):
            self._check_named(path, status)
            self._files.append(LocalFile.of(path, status))
        elif stat.S_ISDIR(status.st_mode):
            if real and not real.startswith(f"{self._root}/"):
                self._refuse(
                    path, "a link to a folder outside the checkpoint; copy the needed files into the checkpoint"
                )
            else:
                root = "" if real else level.root  # what is elsewhere is stored as content, whatever leads to it
                self._left.append(_Level(below=f"{path}/", above=level.above | {inode}, root=root))
        else:
            kind = next((word for is_kind, word in _KINDS if is_kind(status.st_mode)), "of an unknown type")
            self._refuse(path, f"{kind}; only files, folders and links to them can be stored")

    def _check_named(self, path: str, status: os.stat_result) -> None:
        """Refuse a file whose last name is being removed: its name may still lead to it, with a new time of change.

        Linux takes the link from the inode before it takes the name from its cache. A file system that reports no links
        at all, not even of the folder, says nothing about it.
        """
        if self._counts_links and not status.st_nlink:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)

    def _target(self, path: str, real: str, level: _Level) -> str:
        """The target of a link: its own text, or the shortest way if that is absolute or leaves `level.root`."""
        text = str((self._folder / path).readlink())
        folder = Path(os.path.realpath(self._folder / level.below))
        own = (folder / Path(path).name).relative_to(level.root)
        return text if canonical_target(str(own), text) else os.path.relpath(real, folder)

    def _refuse(self, path: str, reason: str) -> None:
        self._obstacle = self._obstacle or f"holds {path!r}, {reason}"


def _is_storable(status: os.stat_result) -> bool:
    return stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)


def is_copy(path: Path, other: Path) -> bool:
    """Whether two files have the same content."""
    try:
        one, two = path.stat(), other.stat()
    except OSError:
        return False
    if one.st_size != two.st_size or not stat.S_ISREG(one.st_mode) or not stat.S_ISREG(two.st_mode):
        return False
    stamps = tuple((status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns) for status in (one, two))
    return _has_same_content(path, other, stamps)


@functools.lru_cache(maxsize=4096)
def _has_same_content(path: Path, other: Path, _: tuple[tuple[int, ...], ...]) -> bool:
    """Whether two files have the same content, compared once for each version of them."""
    try:
        with path.open("rb") as one, other.open("rb") as two:
            while chunk := one.read(_CHUNK_BYTES):
                if chunk != two.read(_CHUNK_BYTES):
                    return False
    except OSError:
        return False
    return True
