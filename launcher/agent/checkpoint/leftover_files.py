"""Checkpoint files that are not known to be in the store: moved aside, reported, and removed only to make room.

When another run uses the job's folder, Slipway moves these files to `aside/<run>/` in that folder. A later attempt of
the same run gets the files back in place, so that a framework that searches the folder resumes automatically.
"""

import contextlib
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

ASIDE_NAME = "aside"


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """A file or folder that an earlier attempt or another run left: its path, size and run."""

    path: Path
    bytes: int
    run: str

    def __str__(self) -> str:
        size = f"{self.bytes / 1e9:.1f} GB" if self.bytes >= 10**8 else f"{self.bytes:,} bytes"
        return f"{self.path} of run {self.run} ({size})"


def entries(folder: Path) -> list[Path]:
    """The entries of a folder, sorted by name; empty if the folder is missing."""
    try:
        return sorted(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def move_aside(root: Path, paths: Iterable[Path], *, run: str) -> None:
    """Move files and folders to `aside/<run>` of a job's folder; a name that already exists there gets a number."""
    place = root / ASIDE_NAME / (run or "unknown")
    for path in paths:
        place.mkdir(parents=True, exist_ok=True)
        name, number = path.name, 1
        while os.path.lexists(place / name):
            number += 1
            name = f"{path.name}.{number}"
        path.rename(place / name)


def bring_back(root: Path, folder: Path, *, run: str) -> None:
    """Move the files of a run from `aside` back to its checkpoint folder, except names that already exist there."""
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
    """All files and folders in `aside` of a job's folder."""
    return [leftover for place in entries(root / ASIDE_NAME) for leftover in leftovers(entries(place), run=place.name)]


def age_key(leftover: Leftover) -> float:
    """The time of the last write, for sorting: the oldest is removed first."""
    try:
        return leftover.path.lstat().st_mtime
    except OSError:
        return 0.0


def size_of(path: Path) -> int:
    """Bytes of a file, or of all files in a folder; files that disappear meanwhile count as zero."""
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
    """Remove a file, a link or a folder with its content, as far as possible."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
