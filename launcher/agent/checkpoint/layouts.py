"""The files and folders that form a framework's checkpoint: the table of layouts (`layouts.csv`) and its reader.

One line per preset:

    names         name of a checkpoint below the checkpoint folder; <step> and <rank> stand for numbers
    unit          unit of <step>: step, epoch, save
    kind          folder; entry (a file or a folder); group (all entries of one step are one checkpoint)
    marker        file in the checkpoint that the framework writes last, on the first node
    tracker       file next to the checkpoint whose text (tracker_text) names the newest complete one, on the first node
    unless        file next to the checkpoint that exists while the checkpoint is incomplete
    companion     file or folder next to the checkpoint that belongs to the newest one
    renamed       yes: the name proves nothing; the checkpoint counts only after a rename
    links         links next to the checkpoint that are created again after a restore: link=target
    resume        value of SLIPWAY_RESUME_DIR: self (the folder of SLIPWAY_RESUME_FILE, if it is a file), or the folder
                  that contains the checkpoint (parent)
    state         how the checkpoint's own state is read (`trainer_state`): the other checkpoints that are one set with
                  it, and the step, if the name has none
    best          names of the best models that the trainer keeps apart and does not name in its state: they are one set
                  with the newest checkpoint; self: the line is that of the best models, which are checkpoints too
    signs         files that no other framework writes: a line without evidence does not match a folder with them
    source        place in the framework's own source that proves this line

A marker or a tracker proves that a checkpoint is finished only together with a quiet period on every node (`watch`).
"""

import csv
import functools
import os
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from pkgutil import get_data

from launcher.agent.checkpoint.trainer_state import saved_step
from launcher.agent.manifest import Manifest

AUTO = "auto"
SLIPWAY = "slipway"
UNCOUNTED = -1
"""The step of fixed names until the watch counts their version."""
PATTERN = "pattern"
"""The name of a layout that the plan itself describes."""
_SELF = "self"
_FIXED = re.compile(r"\D+(?:-v\d+)?\.\D+")
"""A name without a number; Lightning appends -v1 and so on where a name is taken."""
_LIGHTNINGS_OWN = re.compile(r"(?:last|best)(?:-v\d+)?\.\D+|(?:[^/]*[-_])?epoch=\d+[^/]*")
"""The names that also say which layout it is: another file may be a model that the trainer only reads."""
_ARCHIVE_START = b"PK\3\4"
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
    companion: str = ""
    renamed: str = ""
    links: str = ""
    resume: str = "self"
    state: str = ""
    best: str = ""
    signs: str = ""
    source: str = ""

    @property
    def key(self) -> str:
        """The key for comparisons, with the unit, because a layout may count in several units."""
        return f"{self.layout}/{self.unit}"

    @property
    def has_evidence(self) -> bool:
        """Whether the framework itself marks finished checkpoints."""
        return bool(self.marker or self.tracker or self.companion or self.renamed)

    @property
    def is_bare_number(self) -> bool:
        """Whether a name is a number alone, which other entries of a folder may be too."""
        return self.names == _NUMBERS["<step>"]

    @property
    def is_nameless(self) -> bool:
        """Whether the names have no step: it is read of the checkpoint itself."""
        return "step" not in _compile_names(self.names).groupindex

    @property
    def is_counted(self) -> bool:
        """Whether neither names nor content have a step: every version of the fixed names is the next one."""
        return self.is_nameless and not self.state

    @property
    def is_best(self) -> bool:
        """Whether the names are those of best models."""
        return self.best == _SELF

    def step_of(self, name: str) -> int | None:
        """The step in a checkpoint's name, relative to the checkpoint folder; None without a step or a match."""
        match = None if self.is_nameless else _compile_names(self.names).fullmatch(name)
        return int(match.group("step")) if match is not None else None

    def matches(self, name: str) -> bool:
        """Whether an entry of the checkpoint folder has such a name."""
        return _compile_names(self.names).fullmatch(name) is not None

    def step_in(self, folder: Path, name: str) -> int | None:
        """The step of an entry of the checkpoint folder, by its name or its content; None if it is no checkpoint."""
        if not self.is_nameless:
            return self.step_of(name)
        if self.is_counted or not _compile_names(self.names).fullmatch(name) or (folder / name).is_symlink():
            return None
        try:
            status = (folder / name).stat()
        except OSError:
            return None
        return _saved_step(self.state, folder / name, (status.st_ino, status.st_size, status.st_mtime_ns))

    def is_version(self, folder: Path, name: str) -> bool:
        """Whether a name holds a checkpoint whose step nothing tells: each version of it is the next one.

        The file of a trainer that only names its files as the framework does may have any format. A zip archive without
        its directory, which is written last, is unfinished.
        """
        if self.is_counted or not self.matches(name):
            return self.is_counted and self.matches(name)
        path = folder / name
        if not self.is_nameless or path.is_symlink():
            return False
        return self.step_in(folder, name) is None and (path.is_dir() or _is_no_begun_archive(path))

    def is_one(self, folder: Path, name: str) -> bool:
        """Whether an entry has the kind of the layout; a link does not count because it repeats another entry."""
        path = folder / name
        if self.layout == SLIPWAY:
            return True  # the uploading code reports what is wrong with it
        if path.is_symlink():
            return False
        return path.is_dir() if self.kind == "folder" else path.exists()

    def missing(self, folder: Path, name: str, *, renamed: bool) -> str:
        """The reason why an entry that looks finished is not finished yet; empty if nothing is missing."""
        path = folder / name
        if self.renamed and not renamed:
            return "it was not renamed into place"
        if self.marker and not (path / self.marker).is_file():
            return f"it has no {self.marker}"
        if self.unless and os.path.lexists(folder / self.unless.format(name=name)):
            return f"{self.unless.format(name=name)} exists"
        if self.companion and (lacking := self._companion_problem(path, name)):
            return lacking
        if self.tracker and not self._tracker_names(path, name):
            return f"{self.tracker} does not name it"
        return ""

    def has_signs(self, path: Path) -> bool:
        """Whether a folder holds a file that this framework alone writes."""
        return any(True for sign in self.signs.split() for _ in path.glob(sign))

    def tracker_of(self, name: str) -> tuple[str, str] | None:
        """The tracker's path below the checkpoint folder, and its text for a checkpoint; None if no tracker applies."""
        step = self.step_of(name)
        if not self.tracker or step is None:
            return None
        parent, _, last = name.rpartition("/")
        text = self.tracker_text.format(name=last, step=step)
        return f"{parent}/{self.tracker}" if parent else self.tracker, text

    def links_of(self, name: str) -> dict[str, str]:
        """The links that a framework maintains next to a checkpoint, with their targets."""
        match = _compile_names(self.names).fullmatch(name)
        if match is None or not self.links:
            return {}
        link, _, target = self.links.partition("=")
        values = {**match.groupdict(), "name": name}
        pair = link.format(**values), target.format(**values)
        return {} if pair[0] == pair[1] else dict([pair])

    def _companion_problem(self, path: Path, name: str) -> str:
        """The reason why the `companion` entry is missing or of a later checkpoint; empty if neither applies."""
        if not (path.parent / self.companion).exists():
            return f"{self.companion} is not next to it"
        above, own_step = name[: name.rfind("/") + 1], self.step_of(name)
        steps = (self.step_of(above + other.name) for other in path.parent.iterdir())
        later = own_step is not None and any(step > own_step for step in steps if step is not None)
        return f"{self.companion} belongs to a later one" if later else ""

    def _tracker_names(self, path: Path, name: str) -> bool:
        tracker = path.parent / self.tracker
        try:
            text = tracker.read_text(encoding="utf-8")
            return self.names_it(text, name) or self._precedes_best(path, name, tracker, text)
        except (OSError, UnicodeDecodeError):
            return False

    def _precedes_best(self, path: Path, name: str, tracker: Path, text: str) -> bool:
        """Whether the tracker names a best model, perhaps of an earlier step, that was saved after the checkpoint."""
        if self.best in ("", _SELF):
            return False
        named = name[: name.rfind("/") + 1] + text.strip()
        if not any(row.matches(named) for row in table() if row.key == self.key and row.is_best):
            return False
        written_ns = max((file.stat().st_mtime_ns for file in path.rglob("*") if file.is_file()), default=0)
        return tracker.stat().st_mtime_ns >= written_ns > 0

    def names_it(self, text: str, name: str) -> bool:
        """Whether the text of a tracker names this checkpoint or a later one."""
        pattern = re.escape(self.tracker_text)
        for placeholder, number in _TRACKED.items():
            pattern = pattern.replace(placeholder, number)
        match = re.fullmatch(pattern, text.strip())
        if match is None:
            return False
        groups = match.groupdict()
        companion = name[: name.rfind("/") + 1]
        own_step, named = self.step_of(name), groups.get("name", "")
        rows = (self, *(row for row in table() if row.key == self.key))
        names = (f"{companion}{named[start:]}" for start in range(len(named)))
        steps = (step for candidate in names for row in rows if (step := row.step_of(candidate)) is not None)
        step = int(groups["step"]) if "step" in groups else next(steps, None)
        if own_step is None or step is None:
            return False
        # The best one has the longer name (OpenRLHF: best_global_step20); it is written after the other of its step.
        return step > own_step or (step == own_step and ("step" in groups or named.endswith(name[len(companion) :])))


def is_fixed(name: str) -> bool:
    """Whether a name has no number, so that every save writes it again."""
    return _FIXED.fullmatch(name) is not None


def says_lightning(name: str) -> bool:
    """Whether a name without a readable step is one that Lightning's callbacks give."""
    return _LIGHTNINGS_OWN.fullmatch(name) is not None


@functools.cache
def table() -> tuple[Layout, ...]:
    """Every line of `layouts.csv`, in order."""
    text = (get_data(__package__, "layouts.csv") or b"").decode()
    rows = csv.DictReader(text.splitlines())
    return tuple(Layout(**row | {key: _expression(row[key]) for key in ("names", "best")}) for row in rows)


def names_others(layout: str) -> bool:
    """Whether a framework's checkpoint may name others that are one set with it; the first node's says which."""
    return any(row.state or row.best for row in table() if row.layout == layout)


def preset_names() -> tuple[str, ...]:
    """The presets of `checkpoint.layout`."""
    return (AUTO, *dict.fromkeys(row.layout for row in table()))


def parse_layout(pattern: str, tracker: Mapping[str, str] | None) -> Layout:
    """The layout that a plan describes: a regular expression with one group, the step, and a tracker.

    Without a group it describes fixed names: what is written there is the next checkpoint, and its number is counted.
    """
    names = re.sub(r"(?<!\\)\((?!\?)", "(?P<step>", pattern, count=1)
    if _compile_names(names).groups > 1:
        raise re.error("it must have exactly one group, which matches the step, or none for fixed names")
    tracker_fields = tracker or {}
    resume = "parent" if tracker_fields else "self"
    file, text = tracker_fields.get("file", ""), tracker_fields.get("text", "")
    return Layout(layout=PATTERN, names=names, kind="entry", tracker=file, tracker_text=text, resume=resume)


def keys_of(manifest: Manifest) -> frozenset[str]:
    """The keys that a stored checkpoint may have; if a manifest names no layout, the name of its folder decides.

    Steps of two checkpoints may be compared only if the checkpoints share a key.
    """
    if manifest.layout:
        return frozenset({f"{manifest.layout}/{manifest.unit}"})
    return frozenset(row.key for row in table() if row.step_of(manifest.folder) is not None)


def _is_no_begun_archive(path: Path) -> bool:
    """Whether a file holds something, and is not the beginning of a zip archive."""
    try:
        with path.open("rb") as file:
            start = file.read(len(_ARCHIVE_START))
        return bool(start) and (start != _ARCHIVE_START or zipfile.is_zipfile(path))
    except OSError:
        return False  # the trainer replaces it


@functools.lru_cache(maxsize=4096)
def _saved_step(state: str, path: Path, _: tuple[int, ...]) -> int | None:
    """The step in a file, read once for each version of it."""
    return saved_step(state, path)


@functools.cache
def _compile_names(names: str) -> "re.Pattern[str]":
    return re.compile(names)


def _expression(names: str) -> str:
    for placeholder, number in _NUMBERS.items():
        names = names.replace(placeholder, number)
    return names
