"""Which files and folders are a framework's checkpoint: the table of layouts (`layouts.csv`) and how it is read.

One line a preset:

    names         what a checkpoint is called below the checkpoint folder; <step> and <rank> stand for numbers
    unit          what <step> counts: step, epoch, save
    kind          folder; entry (a file or a folder); group (all entries of one step are one checkpoint)
    marker        a file in it that the framework writes last, on the first node
    tracker       a file beside it whose text (tracker_text) names the newest one that is whole, on the first node
    unless        a file beside it that is there as long as it is not whole
    beside        a file or folder beside it that belongs to the newest one
    renamed       yes: its name says nothing, it counts after a rename alone
    links         links beside it that are made again after a restore: link=target
    resume        what SLIPWAY_RESUME_DIR is: self, or the folder that it lies in (parent)
    signs         files in it that no other framework writes: a line without evidence does not take it
    source        where the framework's own source says so

A marker or a tracker says that a checkpoint is finished only together with quiet on every node (`watch`).
"""

import csv
import functools
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from pkgutil import get_data

from launcher.agent.errors import JobSpecError
from launcher.agent.job import CheckpointSpec
from launcher.agent.manifest import HERE, Manifest

AUTO = "auto"
SLIPWAY = "slipway"
PATTERN = "pattern"
"""The name of the layout that a plan describes itself."""
_NUMBERS = {"<step>": r"(?P<step>\d{1,18})", "<rank>": r"(?P<rank>\d{1,9})"}
_TRACKED = {re.escape("{step}"): r"(?P<step>\d{1,18})", re.escape("{name}"): r"(?P<name>.+)"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """One line of the table; `names` is a regular expression."""

    layout: str
    names: str
    unit: str = "step"
    kind: str = "folder"
    marker: str = ""
    tracker: str = ""
    tracker_text: str = ""
    unless: str = ""
    beside: str = ""
    renamed: str = ""
    links: str = ""
    resume: str = "self"
    signs: str = ""
    source: str = ""

    @property
    def key(self) -> str:
        """Names what may be compared: a layout may count in several units."""
        return f"{self.layout}/{self.unit}"

    @property
    def has_evidence(self) -> bool:
        """Whether the framework itself says what is finished."""
        return bool(self.marker or self.tracker or self.beside or self.renamed)

    def step_of(self, name: str) -> int | None:
        """The number in the name of a checkpoint, relative to the checkpoint folder; None: it is none."""
        match = _compiled(self.names).fullmatch(name)
        return int(match.group("step")) if match is not None else None

    def is_one(self, folder: Path, name: str) -> bool:
        """Whether an entry is of the kind that the layout has; a link repeats another entry."""
        path = folder / name
        if self.layout == SLIPWAY:
            return True  # what is wrong with it is said by who is to store it
        if path.is_symlink():
            return False
        return path.is_dir() if self.kind == "folder" else path.exists()

    def missing(self, folder: Path, name: str, *, renamed: bool) -> str:
        """What the framework has not said yet of an entry that looks finished; empty where nothing is missing."""
        path = folder / name
        if self.renamed and not renamed:
            return "it was not renamed into place"
        if self.marker and not (path / self.marker).is_file():
            return f"it has no {self.marker}"
        if self.unless and os.path.lexists(folder / self.unless.format(name=name)):
            return f"{self.unless.format(name=name)} exists"
        if self.beside and (lacking := self._lacking_beside(path, name)):
            return lacking
        if self.tracker and not self._tracked(path, name):
            return f"{self.tracker} does not name it"
        return ""

    def has_signs(self, path: Path) -> bool:
        """Whether a folder holds a file that this framework alone writes."""
        return any(True for sign in self.signs.split() for _ in path.glob(sign))

    def tracker_of(self, name: str) -> tuple[str, str] | None:
        """The tracker's path below the checkpoint folder and its text, for a checkpoint; None where there is none."""
        step = self.step_of(name)
        if not self.tracker or step is None:
            return None
        parent, _, last = name.rpartition("/")
        text = self.tracker_text.format(name=last, step=step)
        return f"{parent}/{self.tracker}" if parent else self.tracker, text

    def links_of(self, name: str) -> dict[str, str]:
        """The links that a framework keeps beside a checkpoint, with what each points to."""
        match = _compiled(self.names).fullmatch(name)
        if match is None or not self.links:
            return {}
        link, _, target = self.links.partition("=")
        values = {**match.groupdict(), "name": name}
        pair = link.format(**values), target.format(**values)
        return {} if pair[0] == pair[1] else dict([pair])

    def _lacking_beside(self, path: Path, name: str) -> str:
        """Why what lies beside a checkpoint is not its own; empty where it is."""
        if not (path.parent / self.beside).exists():
            return f"{self.beside} is not next to it"
        above, own = name[: name.rfind("/") + 1], self.step_of(name)
        steps = (self.step_of(above + other.name) for other in path.parent.iterdir())
        later = own is not None and any(step > own for step in steps if step is not None)
        return f"{self.beside} belongs to a later one" if later else ""

    def _tracked(self, path: Path, name: str) -> bool:
        try:
            return self.names_it((path.parent / self.tracker).read_text(encoding="utf-8"), name)
        except (OSError, UnicodeDecodeError):
            return False

    def names_it(self, text: str, name: str) -> bool:
        """Whether the text of a tracker names this checkpoint or a later one."""
        pattern = re.escape(self.tracker_text)
        for placeholder, number in _TRACKED.items():
            pattern = pattern.replace(placeholder, number)
        match = re.fullmatch(pattern, text.strip())
        if match is None:
            return False
        groups = match.groupdict()
        beside = name[: name.rfind("/") + 1]
        own, named = self.step_of(name), groups.get("name", "")
        # The best one may have a longer name (OpenRLHF: best_global_step20); it is written after the other of its step.
        names = (f"{beside}{named[start:]}" for start in range(len(named)))
        step = next((at for candidate in names if (at := self.step_of(candidate)) is not None), None)
        step = int(groups["step"]) if "step" in groups else step
        return own is not None and step is not None and step >= own


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointEntry:
    """What lies in the checkpoint folder under the name of one checkpoint.

    Attributes:
        layout: The line of the table.
        step: In its name.
        names: Its entries, relative to the checkpoint folder; one but for a group.
        root: What its files are relative to: the checkpoint folder, or its own.
        entries: What of `root` it is; empty: all of it.
    """

    layout: Layout
    step: int
    names: tuple[str, ...]
    root: Path
    entries: tuple[str, ...] = ()

    @property
    def folder(self) -> str:
        """Its folder's name in a manifest; "." for files of the checkpoint folder itself."""
        return HERE if self.entries else self.names[0]


def entry_at(layout: Layout, checkpoints: Path, step: int, names: tuple[str, ...]) -> CheckpointEntry:
    """The checkpoint that some entries of the checkpoint folder make."""
    first = checkpoints / names[0]
    if layout.kind == "folder" or (layout.kind == "entry" and first.is_dir()):
        return CheckpointEntry(layout=layout, step=step, names=names[:1], root=first)
    beside = {str(Path(name).parent / layout.beside) for name in names} if layout.beside else set()
    entries = (*names, *sorted(name for name in beside if (checkpoints / name).exists()))
    return CheckpointEntry(layout=layout, step=step, names=names, root=checkpoints, entries=entries)


@functools.cache
def table() -> tuple[Layout, ...]:
    """Every line of `layouts.csv`, in order."""
    text = (get_data(__package__, "layouts.csv") or b"").decode()
    return tuple(Layout(**{**row, "names": _expression(row["names"])}) for row in csv.DictReader(text.splitlines()))


def names() -> tuple[str, ...]:
    """The presets of `checkpoint.layout`."""
    return (AUTO, *dict.fromkeys(row.layout for row in table()))


def described(pattern: str, tracker: Mapping[str, str] | None) -> Layout:
    """The layout that a plan describes: a regular expression with one group, the step, and a tracker."""
    names = re.sub(r"(?<!\\)\((?!\?)", "(?P<step>", pattern, count=1)
    if _compiled(names).groups != 1:
        raise re.error("it must have exactly one group, which matches the step")
    tracker_fields = tracker or {}
    resume = "parent" if tracker_fields else "self"
    file, text = tracker_fields.get("file", ""), tracker_fields.get("text", "")
    return Layout(layout=PATTERN, names=names, kind="entry", tracker=file, tracker_text=text, resume=resume)


def keys_of(manifest: Manifest) -> frozenset[str]:
    """The keys that a stored checkpoint may have; where a manifest names no layout, its folder's name decides.

    Steps of two checkpoints may be compared only where they have a key in common.
    """
    if manifest.layout:
        return frozenset({f"{manifest.layout}/{manifest.unit}"})
    return frozenset(row.key for row in table() if row.step_of(manifest.folder) is not None)


def layouts_of(policy: CheckpointSpec) -> "Layouts":
    """The lines that count for a job.

    Raises:
        JobSpecError: There is no such layout, or its pattern is no regular expression with one group.
    """
    if policy.pattern is not None:
        try:
            return Layouts([described(policy.pattern, policy.tracker)])
        except re.error as error:
            raise JobSpecError([f"checkpoint.pattern: got {policy.pattern!r}: {error}"]) from error
    rows = [row for row in table() if policy.layout in (AUTO, row.layout)]
    if not rows:
        raise JobSpecError([f"checkpoint.layout: got {policy.layout!r}; allowed: {', '.join(names())}"])
    return Layouts(rows)


class Layouts:
    """The lines that count in one attempt: all of them until it is known which one the framework has."""

    def __init__(self, rows: Iterable[Layout] = ()) -> None:
        self.rows = tuple(rows) or table()

    @property
    def key(self) -> str:
        """Of the lines, where it is the same for all; empty while it is not known which count."""
        keys = {row.key for row in self.rows}
        return keys.pop() if len(keys) == 1 else ""

    def only(self, key: str) -> "Layouts":
        """The lines of a key; this where there is none."""
        rows = [row for row in self.rows if row.key == key]
        return Layouts(rows) if rows else self

    def of(self, manifest: Manifest) -> "Layouts":
        """The lines that a stored checkpoint may be of; one of an earlier version names no layout."""
        return Layouts([row for row in self.rows if _is_of(row, manifest)] or self.rows)

    def accepts(self, manifest: Manifest) -> bool:
        """Whether a stored checkpoint is of a layout that counts."""
        return any(_is_of(row, manifest) for row in self.rows)

    def step_of(self, name: str) -> int | None:
        """The step of an entry by the first line that fits."""
        return next((step for row in self.rows if (step := row.step_of(name)) is not None), None)

    def entries_in(self, folder: Path) -> list[CheckpointEntry]:
        """What lies in the checkpoint folder under the names of checkpoints, once for every line that it fits."""
        listed = self.listed(lambda below: names_in(folder, below))
        entries = []
        for row in self.rows:
            steps: dict[int, list[str]] = {}
            for name in listed:
                if (step := row.step_of(name)) is not None and row.is_one(folder, name):
                    steps.setdefault(step, []).append(name)
            for step, names in steps.items():
                together = [tuple(names)] if row.kind == "group" else [(name,) for name in names]
                entries += [entry_at(row, folder, step, group) for group in together]
        return [
            entry for entry in entries if entry.layout.has_evidence or not self._has_signs_of_another(folder, entry)
        ]

    def listed(self, names: Callable[[str], list[str]]) -> list[str]:
        """The entries of a folder, and those of the folders in it that a line looks into.

        `names` gives the names in a folder below it; of "" those in itself.
        """
        above = [re.compile(row.names.partition("/")[0]) for row in self.rows if "/" in row.names.replace("[^/]", "")]
        entries = []
        for name in names(""):
            entries.append(name)
            if any(first.fullmatch(name) for first in above):
                entries += [f"{name}/{child}" for child in names(name)]
        return entries

    def _has_signs_of_another(self, folder: Path, entry: CheckpointEntry) -> bool:
        """Whether a line that fits the same name knows the checkpoint by its files, before its marker is there."""
        fitting = ((row, name) for row in self.rows for name in entry.names if row.step_of(name) == entry.step)
        return any(row.has_signs(folder / name) for row, name in fitting)

    def belongings(self, folder: Path) -> list[str]:
        """The checkpoints in a folder with their trackers, links and what belongs to them, by relative name.

        While it is not known which line counts, a bare number is not taken for a checkpoint.
        """
        names: dict[str, None] = {}
        for entry in self.entries_in(folder):
            if not self.key and entry.layout.names == _NUMBERS["<step>"]:
                continue
            for name in entry.names:
                tracker = entry.layout.tracker_of(name)
                others = [tracker[0] if tracker else "", *entry.layout.links_of(name)]
                names |= dict.fromkeys([name, *entry.entries, *others])
        return [name for name in names if name and os.path.lexists(folder / name)]


def write_back(layout: Layout, folder: Path, names: Iterable[str]) -> None:
    """Write what a framework finds its newest checkpoint by: its tracker and its links, after a restore."""
    for name in names:
        tracker = layout.tracker_of(name)
        if tracker is not None:
            partial = folder / f"{tracker[0]}.slipway"
            partial.write_text(tracker[1], encoding="utf-8")
            partial.replace(folder / tracker[0])
        for link, target in layout.links_of(name).items():
            own = (folder / link).is_dir() and not (folder / link).is_symlink()  # the framework's, of this step
            if (folder / target).exists() and not own:
                (folder / link).unlink(missing_ok=True)
                (folder / link).symlink_to(target)


def _is_of(row: Layout, manifest: Manifest) -> bool:
    if manifest.layout:
        return (row.layout, row.unit) == (manifest.layout, manifest.unit)
    return row.step_of(manifest.folder) is not None


@functools.cache
def _compiled(names: str) -> "re.Pattern[str]":
    return re.compile(names)


def _expression(names: str) -> str:
    for placeholder, number in _NUMBERS.items():
        names = names.replace(placeholder, number)
    return names


def names_in(folder: Path, below: str) -> list[str]:
    """The names in a folder below another one, or in that itself; none behind a link."""
    try:
        path = folder / below
        return [] if below and path.is_symlink() else sorted(entry.name for entry in path.iterdir())
    except OSError:
        return []  # it is no folder, or the command took it away
