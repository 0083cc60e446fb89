"""Checkpoint files that are not known to be in the store: they are moved aside, named, and removed only to make room.

They lie in `aside/<run>/` of the job's folder once another run uses the folder. A later attempt of the same run gets
them back in place, so that a framework that looks there resumes by itself.
"""

import contextlib
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

ASIDE_NAME = "aside"
_UNKNOWN_RUN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """A file or folder that an earlier attempt or another run left: where, how large, and of which run."""

    path: Path
    bytes: int
    run: str

    def __str__(self) -> str:
        size = f"{self.bytes / 1e9:.1f} GB" if self.bytes >= 10**8 else f"{self.bytes:,} bytes"
        return f"{self.path} of run {self.run} ({size})"


def entries(folder: Path) -> list[Path]:
    """What a folder holds, by name; nothing where it is not there."""
    try:
        return sorted(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def move_aside(root: Path, paths: Iterable[Path], *, run: str) -> None:
    """Move files and folders into `aside/<run>` of a job's folder; a name that is taken there gets a number."""
    place = root / ASIDE_NAME / (run or _UNKNOWN_RUN)
    for path in paths:
        place.mkdir(parents=True, exist_ok=True)
        name, number = path.name, 1
        while os.path.lexists(place / name):
            number += 1
            name = f"{path.name}.{number}"
        path.rename(place / name)


def bring_back(root: Path, folder: Path, *, run: str) -> None:
    """Move what was set aside of a run back into its checkpoint folder, where nothing has taken its name."""
    place = root / ASIDE_NAME / run
    for path in entries(place):
        if not os.path.lexists(folder / path.name):
            path.rename(folder / path.name)
    for empty in (place, place.parent):
        with contextlib.suppress(OSError):
            empty.rmdir()


def leftovers(paths: Iterable[Path], *, run: str) -> list[Leftover]:
    """Files and folders with their sizes."""
    return [Leftover(path=path, bytes=size_of(path), run=run) for path in paths]


def set_aside(root: Path) -> list[Leftover]:
    """Everything that was set aside in a job's folder."""
    return [leftover for place in entries(root / ASIDE_NAME) for leftover in leftovers(entries(place), run=place.name)]


def age_key(leftover: Leftover) -> float:
    """When it was last written, for sorting: the oldest goes first."""
    try:
        return leftover.path.lstat().st_mtime
    except OSError:
        return 0.0


def size_of(path: Path) -> int:
    """Bytes of a file, or of all files in a folder; what goes away meanwhile counts nothing."""
    total = 0
    pending = [path]
    while pending:
        at = pending.pop()
        with contextlib.suppress(OSError):
            if at.is_dir() and not at.is_symlink():
                pending += at.iterdir()
            else:
                total += at.lstat().st_size
    return total


def remove(path: Path) -> None:
    """Remove a file, a link or a folder with what is in it, as far as that can be done."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
