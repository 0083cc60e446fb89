"""The content of a finished checkpoint, held until it is sent, whatever the trainer does with its files meanwhile.

A trainer that renames new files into place, or removes old ones, leaves the old files to whoever has them open. A
trainer that writes into the same files leaves nothing: they are copied first, without a copy of the data where the file
system can share it (XFS, Btrfs). Held files need room on the disk, so that a disk that has little of it holds none.
"""

import os
import resource
import shutil
import stat
import weakref
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path

from launcher.agent.checkpoint.files import LocalFile, with_content

_MOST_FILES = 512
_COPY_BYTES = 1 << 30
_SPARE = 2
"""The free room of the disk, in sizes of the checkpoint: the trainer's next one, and what is held."""


class HeldFiles:
    """Files with the content that they had when the checkpoint was finished; held as long as this object exists."""

    def __init__(self, paths: Mapping[str, Path], release: Callable[[], None], *, are_copies: bool = False) -> None:
        """`paths`: where the content of a file can be read, by its path in the checkpoint."""
        self._paths = paths
        self.are_copies = are_copies
        weakref.finalize(self, release)

    def path_of(self, file: LocalFile) -> Path:
        """Where the content of a file can be read."""
        return self._paths[file.path]


def hold_open(root: Path, files: Collection[LocalFile]) -> HeldFiles | None:
    """Hold the files below `root` by opening them; None if one has changed, too many of them, or too little room."""
    files = with_content(files)
    if not files or len(files) > _most_open() or not _has_room(root, files):
        return None
    descriptors: dict[str, int] = {}
    try:
        for file in files:
            descriptors[file.path] = os.open(root / file.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            if LocalFile.of(file.path, os.fstat(descriptors[file.path])) != file:
                _close(descriptors)
                return None
    except OSError:
        _close(descriptors)
        return None
    paths = {path: Path(f"/proc/self/fd/{descriptor}") for path, descriptor in descriptors.items()}
    if not os.access(next(iter(paths.values())), os.R_OK):
        _close(descriptors)
        return None
    return HeldFiles(paths, lambda: _close(descriptors))


def hold_copy(root: Path, files: Collection[LocalFile], place: Path) -> HeldFiles | None:
    """Hold the files by copies of them in a new folder `place`; None if one changed meanwhile, or the room is small."""
    files = with_content(files)
    if not _has_room(root, files):
        return None
    paths = {file.path: place / str(number) for number, file in enumerate(files)}
    try:
        place.mkdir(parents=True)
        unchanged = all(_copy(root / file.path, file, paths[file.path]) for file in files)
    except OSError:
        unchanged = False
    if not unchanged:
        shutil.rmtree(place, ignore_errors=True)
        return None
    return HeldFiles(paths, lambda: shutil.rmtree(place, ignore_errors=True), are_copies=True)


def left_of(finished: Collection[LocalFile], now: Collection[LocalFile]) -> tuple[LocalFile, ...]:
    """What is left of a held checkpoint among the files that now have its names, with what was added to it.

    What replaced a held file is the next version's, and so is everything once no file of this version is left.
    """
    before = {file.path: file.inode for file in finished}
    if not any(before.get(file.path) == file.inode for file in now):
        return ()
    return tuple(file for file in now if before.get(file.path) in (None, file.inode))


def _copy(source: Path, file: LocalFile, target: Path) -> bool:
    """Copy a file; return whether it is the same file, unchanged, before and after."""
    with source.open("rb", buffering=0) as reader, target.open("xb", buffering=0) as writer:
        status = os.fstat(reader.fileno())
        if not stat.S_ISREG(status.st_mode) or LocalFile.of(file.path, status) != file:
            return False
        try:
            while os.copy_file_range(reader.fileno(), writer.fileno(), _COPY_BYTES):
                pass
        except OSError:
            reader.seek(0)
            writer.seek(0)
            writer.truncate()
            shutil.copyfileobj(reader, writer, 1 << 22)
        return LocalFile.of(file.path, os.fstat(reader.fileno())) == file and writer.tell() == file.bytes


def _has_room(root: Path, files: Collection[LocalFile]) -> bool:
    with suppress(OSError):
        return shutil.disk_usage(root).free >= _SPARE * sum(file.bytes for file in files)
    return False


def _most_open() -> int:
    """How many files one checkpoint may keep open: a part of what the process may open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return min(_MOST_FILES, soft // 4 if soft != resource.RLIM_INFINITY else _MOST_FILES)


def _close(descriptors: Mapping[str, int]) -> None:
    for descriptor in descriptors.values():
        with suppress(OSError):
            os.close(descriptor)
