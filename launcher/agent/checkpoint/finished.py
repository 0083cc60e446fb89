"""A finished checkpoint on the node."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from launcher.agent.checkpoint.files import LocalFile, Survey, changed_since, present_entries, survey
from launcher.agent.checkpoint.held import HeldFiles
from launcher.agent.errors import UnusableCheckpointError
from launcher.agent.manifest import HERE


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedFolder:
    """A finished checkpoint on the node.

    Attributes:
        step: Its place in the order in which checkpoints were saved: the step in its name, as long as the trainer does
            not count anew (`Counting`).
        path: The folder to which its file paths are relative: its own, or the checkpoint folder if it has none.
        files: The files when it was finished.
        guessed: Only the quiet period indicates that it is finished.
        write_s: Seconds during which it was seen to grow, accurate to one poll.
        hashes: SHA-256 by path, for a checkpoint that an earlier agent left and hashed.
        folder: Its folder's name below the checkpoint folder, for its manifest; "." if it has no folder of its own.
        entries: The entries of `path` that belong to it; empty: all of them.
        layout: Layout of the framework.
        unit: Unit of the step.
        mains: The first of `entries`, if the others are checkpoints that are one set with them; else empty.
        folders: Its empty folders.
        in_place: The trainer wrote into files of the version before, so that it may write into these too.
        counted: `step` is a count of saves, because neither names nor content have the trainer's step.
        inode: Inode of the first of its names: another one is another file or folder, renamed into place.
        held: Its content until it is sent; None if it is read where the trainer wrote it.
    """

    step: int
    path: Path
    files: tuple[LocalFile, ...]
    guessed: bool = False
    write_s: float = 0.0
    hashes: Mapping[str, str] = field(default_factory=dict)
    folder: str = ""
    entries: tuple[str, ...] = ()
    layout: str = "slipway"
    unit: str = "step"
    mains: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    in_place: bool = False
    counted: bool = False
    inode: int = 0
    held: HeldFiles | None = field(default=None, compare=False, repr=False)

    @property
    def name(self) -> str:
        """Its name on the node: its folder, or the first of its entries."""
        return self.names[0]

    @property
    def names(self) -> tuple[str, ...]:
        """Its entries in the checkpoint folder."""
        return self.entries or (self.folder or self.path.name,)

    @property
    def root(self) -> Path:
        """The checkpoint folder."""
        return self.path if self.entries else self.path.parents[self.name.count("/")]

    @property
    def leading(self) -> tuple[str, ...]:
        """Its entries without other checkpoints of its set: those that trackers and links name."""
        return self.mains or self.names

    @property
    def main(self) -> str:
        """The first of its entries, if other checkpoints are one set with it; else empty."""
        return self.mains[0] if self.mains else ""

    @property
    def others(self) -> tuple[str, ...]:
        """The other checkpoints of its set, by name."""
        return tuple(name for name in self.entries if name not in self.mains) if self.mains else ()

    @property
    def own_files(self) -> tuple[LocalFile, ...]:
        """Its files without those of other checkpoints of its set."""
        if not self.mains:
            return self.files
        own = tuple(f"{name}/" for name in self.mains)
        return tuple(file for file in self.files if f"{file.path}/".startswith(own))

    @property
    def saved_ns(self) -> int:
        """When the last of its own files was written."""
        return max((file.modified_ns for file in self.own_files), default=0)

    def source(self, file: LocalFile) -> Path:
        """Where the content of one of its files is read."""
        return self.path / file.path if self.held is None else self.held.path_of(file)

    def survey(self) -> Survey:
        """The current content; another checkpoint of its set that the trainer has removed is omitted.

        Raises:
            UnusableCheckpointError: an entry of its own disappeared.
        """
        return survey(self.path, present_entries(self.path, self.entries, self.mains))

    def look_again(self) -> tuple[str, Survey]:
        """How the content differs from what was found, and the content; "" if nothing but removed files does.

        A difference counts if two looks have it: a file that is being removed has, for a moment, a new time of change,
        and a status may still have the links from before.

        Raises:
            UnusableCheckpointError: an entry of its own disappeared.
        """
        found = self.survey()
        change = changed_since(self.files, found.files)
        if change:
            found = self.survey()
            change = changed_since(self.files, found.files)
        return change, found

    def without_removed(self) -> "FinishedFolder | None":
        """The rest of a set from which the trainer has removed other checkpoints; None if nothing is missing."""
        present = present_entries(self.path, self.entries, self.mains)
        if present == self.entries or not all(os.path.lexists(self.path / name) for name in self.leading):
            return None
        gone = tuple(f"{name}/" for name in self.entries if name not in present)
        return replace(
            self,
            entries=present,
            files=tuple(file for file in self.files if not f"{file.path}/".startswith(gone)),
            folders=tuple(folder for folder in self.folders if not f"{folder}/".startswith(gone)),
        )


def with_others(finished: FinishedFolder, others: Iterable[str]) -> FinishedFolder:
    """A checkpoint as one set with other entries of the checkpoint folder, as far as they are on this node."""
    checkpoints = finished.root
    named = [name for name in others if name not in finished.leading]
    present = [name for name in named if (checkpoints / name).exists() and not (checkpoints / name).is_symlink()]
    entries = (*finished.leading, *dict.fromkeys(present))
    try:
        together = survey(checkpoints, entries) if present else None
    except UnusableCheckpointError:
        together = None  # the trainer replaces one of them now
    if together is None or together.obstacle:
        return finished
    return replace(
        finished,
        path=checkpoints,
        files=together.files,
        folder=HERE,
        entries=entries,
        mains=finished.leading,
        folders=together.folders,
    )
