"""Finished checkpoints that are not in the store: the only copies, which are not removed before their commit.

The agent records every finished checkpoint in `finished.json` and deletes the entry when the checkpoint, or a newer
one, is complete in the store. At the next start the agent resumes from the entries, or retains and reports them.
"""

import json
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from launcher.agent import safe_json
from launcher.agent.checkpoint.files import LocalFile, changed_since, survey, with_content
from launcher.agent.checkpoint_keys import step_of_folder
from launcher.agent.errors import UnusableCheckpointError
from launcher.agent.manifest import is_below
from launcher.agent.node.reserve import Reserve

CHECKPOINTS_NAME = "checkpoints"
PREVIOUS_NAME = "previous"
READ_BACK_NAME = "read-back"
COPIES_NAME = "copies"
FINISHED_NAME = "finished.json"
_FOREIGN = ".of-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsent:
    """One entry: a finished checkpoint that is not known to be in the store.

    Attributes:
        boot: Identifier of the node's boot: after a crash, files may be shorter than recorded.
        files: The files when the checkpoint was finished.
        life: The job's attempt in which it was finished, with the number of nodes; empty if not recorded.
        hashes: SHA-256 by path, once the agent has read it; without, it is retained, but no attempt resumes from it.
        step: Its step; if negative, its name gives the step.
        entries: The entries of its place that belong to it; empty: the folder of its name.
        layout: Layout of the framework.
        unit: Unit of the step.
        main: The first of `entries`, if the others are checkpoints that are one set with it.
        mains: All entries from which the trainer resumes, if there are several: `main` is the first.
        counted: `step` is a count of saves.
    """

    run: str
    uri: str
    boot: str
    files: tuple[LocalFile, ...]
    life: str = ""
    hashes: Mapping[str, str] = field(default_factory=dict)
    step: int = -1
    entries: tuple[str, ...] = ()
    layout: str = "slipway"
    unit: str = "step"
    main: str = ""
    mains: tuple[str, ...] = ()
    counted: bool = False

    @property
    def leading(self) -> tuple[str, ...]:
        """Of a set, the entries from which the trainer resumes."""
        return self.mains or ((self.main,) if self.main else ())

    def as_in(self, place: Path, name: str) -> "Unsent":
        """The entry without other checkpoints of its set that no longer exist, or no longer as they were."""
        root = self.root(place, name)
        entries = tuple(
            entry for entry in self.entries if not self.main or entry in self.leading or self._has(root, entry)
        )
        gone = tuple(f"{entry}/" for entry in self.entries if entry not in entries)
        if not gone:
            return self
        files = tuple(file for file in self.files if not f"{file.path}/".startswith(gone))
        hashes = {path: digest for path, digest in self.hashes.items() if not f"{path}/".startswith(gone)}
        return replace(self, entries=entries, files=files, hashes=hashes)

    def is_in(self, place: Path, name: str) -> bool:
        """Whether a folder holds that checkpoint under its name, unchanged."""
        try:
            return _are_same(self.files, survey(self.root(place, name), self.entries).files)
        except (UnusableCheckpointError, OSError):
            return False

    def _has(self, root: Path, entry: str) -> bool:
        """Whether another checkpoint of its set is there, unchanged."""
        files = [file for file in self.files if f"{file.path}/".startswith(f"{entry}/")]
        try:
            return _are_same(files, survey(root, (entry,)).files)
        except (UnusableCheckpointError, OSError):
            return False

    def root(self, place: Path, name: str) -> Path:
        """The folder to which its file paths are relative."""
        return place if self.entries else place / name

    def step_in(self, name: str) -> int:
        """The step; -1 if neither the entry nor its name gives one."""
        named = step_of_folder(name.partition(_FOREIGN)[0])
        return self.step if self.step >= 0 else -1 if named is None else named


@dataclass(frozen=True, slots=True, kw_only=True)
class UnsentCheckpoint:
    """A finished checkpoint that stays on the node: its path, step, size, run, and all its paths."""

    path: Path
    step: int
    bytes: int
    run: str
    paths: tuple[Path, ...] = ()

    def __str__(self) -> str:
        size = f"{self.bytes / 1e9:.1f} GB" if self.bytes >= 10**8 else f"{self.bytes:,} bytes"
        return f"step {self.step} of run {self.run} in {self.path} ({size})"


class UnsentRecord:
    """The entries of one job's folder on the node. Safe to use from every thread."""

    def __init__(self, root: Path, reserve: Reserve) -> None:
        """Read the existing record; an unreadable record counts as empty. `reserve`: for writes on a full disk."""
        self._path = root / FINISHED_NAME
        self._reserve = reserve
        self._places = (root / CHECKPOINTS_NAME, root / PREVIOUS_NAME)
        self._lock = threading.Lock()
        self._entries = _read(self._path)

    def add(self, name: str, entry: Unsent) -> None:
        """Record a finished checkpoint."""
        with self._lock:
            present = {
                name: self._entries[name] for name in self._entries if any((p / name).exists() for p in self._places)
            }
            self._entries = present | {name: entry}
            self._write()

    def vouch(self, name: str, hashes: Mapping[str, str]) -> None:
        """Record the hashes of a finished checkpoint; do nothing if the checkpoint is not recorded."""
        with self._lock:
            if name in self._entries:
                self._entries[name] = replace(self._entries[name], hashes=hashes)
                self._write()

    def release(self, step: int, *, uri: str) -> None:
        """Delete the entry of a step that is complete in the store, and all older entries with the same URI."""
        with self._lock:
            self._entries = {
                name: entry
                for name, entry in self._entries.items()
                if entry.uri != uri or entry.step_in(name) > step or _FOREIGN in name
            }
            self._write()

    def rename_foreign(self, *, uri: str) -> None:
        """Rename checkpoints for other URIs, so that no checkpoint of this job replaces them."""
        for name, entry, place in list(self._present(self._places)):
            if entry.uri != uri and _FOREIGN not in name:
                new = f"{name}{_FOREIGN}{entry.run}"
                with self._lock:
                    if entry.entries:
                        del self._entries[name]  # files among others have no folder to rename: they are set aside
                        continue
                    self._entries[new] = entry
                    self._write()  # before the folder has the name: a kill in between loses neither
                    (place / name).rename(place / new)
                    del self._entries[name]
                    self._write()

    def owes(self, uri: str) -> bool:
        """Whether a checkpoint for this URI is not known to be in the store."""
        with self._lock:
            return any(entry.uri == uri for entry in self._entries.values())

    def unsent_checkpoints(self) -> list[UnsentCheckpoint]:
        """The recorded checkpoints that exist unchanged, the newest step first."""
        return [
            UnsentCheckpoint(
                path=place / name,
                step=entry.step_in(name),
                bytes=sum(file.bytes for file in entry.files),
                run=entry.run,
                paths=tuple(place / part for part in entry.entries or (name,)),
            )
            for name, entry, place in self._present(self._places)
        ]

    def newest(self, *, uri: str, boot: str) -> tuple[str, Unsent] | None:
        """The newest checkpoint in `previous` from which an attempt can resume, and its name.

        Only entries of `boot`, the node's current boot, count.
        """
        for name, entry, place in self._present(self._places[1:]):
            hashed = entry.hashes.keys() == {file.path for file in with_content(entry.files)}
            if hashed and entry.uri == uri and entry.boot == boot != "" and _FOREIGN not in name:
                return name, replace(entry, files=survey(entry.root(place, name), entry.entries).files)
        return None

    def life_of(self, name: str) -> str:
        """The job's attempt in which an entry was written; empty if unknown."""
        with self._lock:
            entry = self._entries.get(name)
        return entry.life if entry is not None else ""

    def forget_missing(self) -> None:
        """Delete entries whose checkpoint is missing or has changed."""
        with self._lock:
            before = set(self._entries)
        missing = before - {name for name, _, _ in self._present(self._places)}
        with self._lock:
            self._entries = {name: entry for name, entry in self._entries.items() if name not in missing}
            self._write()

    def _present(self, places: tuple[Path, ...]) -> Iterator[tuple[str, Unsent, Path]]:
        with self._lock:
            entries = sorted(self._entries.items(), key=lambda item: item[1].step_in(item[0]), reverse=True)
        for name, entry in entries:
            for place in places:
                present = entry.as_in(place, name)
                if present.is_in(place, name):
                    yield name, present, place
                    break

    def _write(self) -> None:
        self._reserve.replace(self._path, json.dumps({name: asdict(entry) for name, entry in self._entries.items()}))


def _are_same(recorded: Collection[LocalFile], now: Collection[LocalFile]) -> bool:
    return (
        bool(recorded)
        and not changed_since(_without_times(recorded), _without_times(now))
        and len(now) == len(recorded)
    )


def _without_times(files: Iterable[LocalFile]) -> Iterator[LocalFile]:
    """The files without the time that moving them changes, and without what earlier versions did not record."""
    return (replace(file, changed_ns=0, mode=0) for file in files)


def _read(path: Path) -> dict[str, Unsent]:
    try:
        document: dict[str, dict[str, Any]] = safe_json.load(path)
        entries = {}
        for name, fields in document.items():
            files = tuple(LocalFile(**file) for file in fields.pop("files"))
            hashes = {str(path): str(digest) for path, digest in fields.pop("hashes", {}).items()}
            parts, mains = (tuple(str(part) for part in fields.pop(key, ())) for key in ("entries", "mains"))
            entry = Unsent(**fields, files=files, hashes=hashes, entries=parts, mains=mains)
            if entry.step_in(name) >= 0 and all(is_below(part) for part in (name, *parts, *mains)):
                entries[name] = entry
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return {}
    return entries
