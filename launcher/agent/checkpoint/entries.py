"""The checkpoints that the entries of a checkpoint folder form, by the layouts that apply to an attempt."""

import contextlib
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from launcher.agent.checkpoint.files import is_copy
from launcher.agent.checkpoint.layouts import AUTO, UNCOUNTED, Layout, parse_layout, preset_names, says_lightning, table
from launcher.agent.errors import JobSpecError
from launcher.agent.job import CheckpointSpec
from launcher.agent.manifest import HERE, Manifest

_MOST_LISTINGS = 3
"""Of one look: no trainer saves as often as a folder can be listed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointEntry:
    """The entries of the checkpoint folder that form one checkpoint.

    Attributes:
        layout: The line of the table.
        step: The step in the name.
        names: Its entries, relative to the checkpoint folder; exactly one unless the layout's kind is group.
        root: The folder to which its file paths are relative: the checkpoint folder, or the checkpoint's own folder.
        entries: The entries of `root` that belong to the checkpoint; empty: all of them.
    """

    layout: Layout
    step: int
    names: tuple[str, ...]
    root: Path
    entries: tuple[str, ...] = ()

    @property
    def folder(self) -> str:
        """The folder name in a manifest; "." for files of the checkpoint folder itself."""
        return HERE if self.entries else self.names[0]

    @property
    def is_unlike(self) -> bool:
        """Whether the framework writes files that no other one does, and the entry has none of them."""
        return bool(self.layout.signs) and not self.layout.has_signs(self.root)


def entry_at(layout: Layout, checkpoints: Path, step: int, names: tuple[str, ...]) -> CheckpointEntry:
    """The checkpoint that the given entries of the checkpoint folder form."""
    first = checkpoints / names[0]
    if layout.kind == "folder" or (layout.kind == "entry" and first.is_dir()):
        return CheckpointEntry(layout=layout, step=step, names=names[:1], root=first)
    companions = {str(Path(name).parent / layout.companion) for name in names} if layout.companion else set()
    entries = (*names, *sorted(name for name in companions if (checkpoints / name).exists()))
    return CheckpointEntry(layout=layout, step=step, names=names, root=checkpoints, entries=entries)


def layouts_of(policy: CheckpointSpec) -> "Layouts":
    """The lines of the table that apply to a job.

    Raises:
        JobSpecError: the layout does not exist, or its pattern is not a regular expression with one group.
    """
    if policy.pattern is not None:
        try:
            return Layouts([parse_layout(policy.pattern, policy.tracker)])
        except re.error as error:
            raise JobSpecError([f"checkpoint.pattern: got {policy.pattern!r}: {error}"]) from error
    rows = [row for row in table() if policy.layout in (AUTO, row.layout)]
    if not rows:
        raise JobSpecError([f"checkpoint.layout: got {policy.layout!r}; allowed: {', '.join(preset_names())}"])
    return Layouts(rows)


class Layouts:
    """The lines that apply in one attempt: all lines until the framework's layout is known."""

    def __init__(self, rows: Iterable[Layout] = ()) -> None:
        self.rows = tuple(rows) or table()

    @property
    def key(self) -> str:
        """The common key of the lines; empty until the layout is known."""
        keys = {row.key for row in self.rows}
        return keys.pop() if len(keys) == 1 else ""

    def only(self, key: str) -> "Layouts":
        """The lines with a key; `self` if no line has that key."""
        rows = [row for row in self.rows if row.key == key]
        return Layouts(rows) if rows else self

    def of(self, manifest: Manifest) -> "Layouts":
        """The lines that may match a stored checkpoint; a manifest of an earlier version names no layout."""
        return Layouts([row for row in self.rows if _is_of(row, manifest)] or self.rows)

    def accepts(self, manifest: Manifest) -> bool:
        """Whether the layout of a stored checkpoint applies to this attempt."""
        return any(_is_of(row, manifest) for row in self.rows)

    def step_of(self, name: str) -> int | None:
        """The step of an entry by the first matching line."""
        return next((step for row in self.rows if (step := row.step_of(name)) is not None), None)

    def step_in(self, folder: Path, name: str) -> int | None:
        """The step of an entry of the checkpoint folder by the first matching line, also of its content."""
        return next((step for row in self.rows if (step := row.step_in(folder, name)) is not None), None)

    def unread(self, paths: Iterable[Path], *, after_ns: int) -> list[Path]:
        """Those written after a time that are named as checkpoints whose step is in the file, and it is not.

        A copy of a checkpoint whose name has the step repeats it.
        """
        listed = list(paths)
        named = [path for path in listed if not path.is_symlink() and written_ns(path) > after_ns]
        rows = [row for row in self.rows if row.is_nameless and not row.is_counted]
        return [
            path
            for path in named
            if any(row.matches(path.name) for row in rows)
            and self.step_in(path.parent, path.name) is None
            and not any(is_copy(path, other) for other in listed if self.step_of(other.name) is not None)
        ]

    def entries_in(self, folder: Path, *, doubtful: bool = False) -> list[CheckpointEntry]:
        """The entries of the checkpoint folder with checkpoint names, once for every matching line.

        Of versions without a step, the last written are first. `doubtful`: also those that may be models which the
        trainer only reads, because the layout is not known yet.

        A trainer may save between the listing and the comparison of a `last.ckpt` with the listed checkpoints: such a
        copy would look like a newer version. So a version is compared with a listing that follows it.
        """
        entries = self._entries_in(folder, doubtful=doubtful)
        for _ in range(_MOST_LISTINGS):
            versions = _inodes_of_versions(folder, entries)
            if not versions:
                break
            entries = self._entries_in(folder, doubtful=doubtful)
            if _inodes_of_versions(folder, entries) in ({}, versions):
                break
        return entries

    def _entries_in(self, folder: Path, *, doubtful: bool) -> list[CheckpointEntry]:
        listed = self.list_entries(lambda below: names_in(folder, below))
        entries = []
        for row in self.rows:
            steps: dict[int, list[str]] = {}
            for name in listed:
                counts = bool(self.key) or doubtful or says_lightning(name)
                step = UNCOUNTED if counts and row.is_version(folder, name) else row.step_in(folder, name)
                if step is not None and row.is_one(folder, name):
                    steps.setdefault(step, []).append(name)
            if UNCOUNTED in steps and not row.is_counted:
                steps[UNCOUNTED].sort(key=lambda name: written_ns(folder / name), reverse=True)
            for step, names in steps.items():
                together = [tuple(names)] if row.kind == "group" or row.is_counted else [(name,) for name in names]
                entries += [entry_at(row, folder, step, group) for group in together]
        return [
            entry
            for entry in entries
            if not (entry.layout.is_nameless and _repeats(folder, entry, entries))
            and (entry.layout.has_evidence or not self._has_signs_of_another(folder, entry))
        ]

    def list_entries(self, names: Callable[[str], list[str]]) -> list[str]:
        """The entries of a folder, and the entries of its subfolders that a line inspects.

        `names` returns the names in a subfolder; "" is the folder itself.
        """
        above = [re.compile(row.names.partition("/")[0]) for row in self.rows if "/" in row.names.replace("[^/]", "")]
        entries = []
        for name in names(""):
            entries.append(name)
            if any(first.fullmatch(name) for first in above):
                entries += [f"{name}/{child}" for child in names(name)]
        return entries

    def _has_signs_of_another(self, folder: Path, entry: CheckpointEntry) -> bool:
        """Whether another matching line recognises the checkpoint by its files, before its marker exists."""
        fitting = ((row, name) for row in self.rows for name in entry.names if row.step_of(name) == entry.step)
        return any(row.has_signs(folder / name) for row, name in fitting)

    def belongings(self, folder: Path) -> list[str]:
        """The checkpoints in a folder with their trackers, links and related entries, by relative name.

        Until the layout is known, a bare number does not count as a checkpoint.
        """
        names: dict[str, None] = {}
        for entry in self.entries_in(folder):
            if not self.key and entry.layout.is_bare_number:
                continue
            for name in entry.names:
                tracker = entry.layout.tracker_of(name)
                others = [tracker[0] if tracker else "", *entry.layout.links_of(name)]
                names |= dict.fromkeys([name, *entry.entries, *others])
        return [name for name in names if name and os.path.lexists(folder / name)]


def _inodes_of_versions(folder: Path, entries: Iterable[CheckpointEntry]) -> dict[str, int]:
    """The files that count as versions of a fixed name: a trainer that replaces one gives it another inode."""
    names = (name for entry in entries if entry.step == UNCOUNTED for name in entry.names)
    inodes = {}
    for name in names:
        with contextlib.suppress(OSError):  # the trainer replaces it
            inodes[name] = (folder / name).stat().st_ino
    return inodes


def _repeats(folder: Path, entry: CheckpointEntry, entries: Iterable[CheckpointEntry]) -> bool:
    """Whether an entry without a step in its name is a copy of a named checkpoint, or older than one."""
    path, is_version = folder / entry.names[0], entry.step == UNCOUNTED
    for other in entries:
        if other.layout.key != entry.layout.key or other.step < entry.step or other is entry:
            continue
        if other.layout.is_nameless and not (is_version and other.step > UNCOUNTED):
            continue
        if other.step == entry.step or written_ns(folder / other.names[0]) >= written_ns(path):
            return True
        if is_version and is_copy(path, folder / other.names[0]):
            return True
    return False


def best_models(layout: Layout, folder: Path, at_most: int) -> tuple[str, ...]:
    """The finished best models of a step or earlier that the trainer keeps beside the checkpoints of a layout."""
    if not layout.best:
        return ()
    listed = Layouts([layout]).list_entries(lambda below: names_in(folder, below))
    rows = [row for row in table() if row.key == layout.key and row.is_best] if not layout.is_best else [layout]
    return tuple(
        name
        for row in rows
        for name in listed
        if (step := row.step_of(name)) is not None
        and step <= at_most
        and row.is_one(folder, name)
        and not row.missing(folder, name, renamed=False)
    )


def _is_of(row: Layout, manifest: Manifest) -> bool:
    if manifest.layout:
        return (row.layout, row.unit) == (manifest.layout, manifest.unit)
    return row.step_of(manifest.folder) is not None


def written_ns(path: Path) -> int:
    """When a file, or an entry of a folder, was written last; 0 if it is gone."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def names_in(folder: Path, below: str) -> list[str]:
    """The names in a subfolder of a folder, or in the folder itself; empty if the subfolder is a link."""
    try:
        path = folder / below
        return [] if below and path.is_symlink() else sorted(entry.name for entry in path.iterdir())
    except OSError:
        return []  # it is no folder, or the command took it away
