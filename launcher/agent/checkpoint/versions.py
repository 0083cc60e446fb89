"""Checkpoints whose step nothing tells: each version of such a file or folder is the next checkpoint."""

import os
import re
from collections.abc import Iterable
from pathlib import Path

from launcher.agent.checkpoint.entries import CheckpointEntry, names_in, written_ns
from launcher.agent.checkpoint.files import Survey, changed_since, is_copy, survey
from launcher.agent.checkpoint.finished import FinishedFolder
from launcher.agent.checkpoint.layouts import UNCOUNTED, Layout, is_fixed, says_lightning, table
from launcher.agent.checkpoint.trainer_state import LIGHTNING, MOST_BEST, saved_step
from launcher.agent.errors import UnusableCheckpointError

_NUMBER = re.compile(r"\d+")

_Version = frozenset[tuple[str, int, int, int]]
"""Path, inode, size and time of each file: what tells one version from another."""


class Versions:
    """The versions that were reported in one attempt, and what their trainer keeps beside them."""

    def __init__(self, folder: Path, restored: FinishedFolder | None) -> None:
        """Begin with no version; `restored`: the checkpoint that came from the store."""
        self._folder = folder
        self._reported: set[_Version] = set()
        self._families: set[str] = set()
        self._saved: set[str] = set()
        numbered = [name for name in restored.others if not is_fixed(name)] if restored is not None else []
        self._removes = len(numbered) > 1

    def has(self, entry: CheckpointEntry) -> bool:
        """Whether this version was reported, or one that was written later."""
        return self._version(entry) in self._reported

    def without_older(self, entries: Iterable[CheckpointEntry]) -> list[CheckpointEntry]:
        """The entries; of versions whose name has no number, the last written that is new: the others are its set."""
        listed = list(entries)
        fixed = [entry for entry in listed if is_version(entry) and is_fixed(entry.names[0])]
        newest = next((entry for entry in fixed if not self.has(entry)), None)
        return [entry for entry in listed if entry is newest or entry not in fixed]

    def add(self, newest: CheckpointEntry, entries: Iterable[CheckpointEntry], *, known: bool) -> bool:
        """Record a version, and with it all that were written before.

        Returns:
            Whether it is a checkpoint. Until the layout is `known`, a file that was not saved before, and whose name
            says no layout, may be a model that the trainer only reads.
        """
        last = written_ns(self._folder / newest.names[0])
        self._reported |= {
            self._version(entry)
            for entry in entries
            if is_version(entry) and written_ns(self._folder / entry.names[0]) <= last
        }
        family = _NUMBER.sub("", newest.names[0])
        is_checkpoint = known or says_lightning(newest.names[0]) or family in self._families
        self._families.add(family)
        return is_checkpoint

    def forget(self, checkpoint: FinishedFolder, current: Survey) -> None:
        """Let a version count again that the trainer wrote again, perhaps with the same size and time."""
        leading = tuple(f"{name}/" for name in checkpoint.leading)
        own = [file for file in current.files if f"{file.path}/".startswith(leading)]
        if checkpoint.entries and changed_since(checkpoint.own_files, own):
            paths = {file.path for file in own}
            self._reported = {version for version in self._reported if paths.isdisjoint(path for path, *_ in version)}

    def companions(self, layout: Layout, name: str) -> tuple[str, ...]:
        """What a trainer keeps beside a checkpoint whose state cannot be read, and so names no others of its set.

        Names without a number (the best, the last) always. Of the others, up to `MOST_BEST` if the trainer was seen to
        remove some: one that removes none keeps all, and needs the newest alone. A single one may be the best.
        """
        path = self._folder / name
        if layout.state != LIGHTNING or saved_step(layout.state, path) is not None:
            return ()
        rows, written = [row for row in table() if row.key == layout.key], written_ns(path)
        names = [
            other
            for other in names_in(self._folder, "")
            if other != name
            and any(row.matches(other) for row in rows)
            and not (self._folder / other).is_symlink()
            and written_ns(self._folder / other) <= written
            and saved_step(layout.state, self._folder / other) is None
            and not is_copy(self._folder / other, path)
        ]
        self._saved |= {name, *names}
        self._removes = self._removes or not all(os.path.lexists(self._folder / saved) for saved in self._saved)
        numbered = [other for other in names if not is_fixed(other)]
        kept = numbered if len(numbered) <= (MOST_BEST if self._removes else 1) else []
        return (*(other for other in names if other not in numbered), *kept)

    def _version(self, entry: CheckpointEntry) -> _Version:
        try:
            files = survey(self._folder, entry.names).files
        except UnusableCheckpointError:  # the trainer removes it
            files = ()
        return frozenset((file.path, file.inode, file.bytes, file.modified_ns) for file in files)


def is_version(entry: CheckpointEntry) -> bool:
    """Whether an entry of a framework's layout has no step."""
    return entry.step == UNCOUNTED and not entry.layout.is_counted
