"""Retains the newest K checkpoints; tags older ones, and the bucket's lifecycle rule expires tagged objects.

Slipway deletes nothing: a lifecycle rule cannot express "never the newest", a tag can (docs/decisions/0005). The newest
complete checkpoint, and the objects that it references, are never tagged. Only a newer checkpoint of the same layout
supersedes one; checkpoints of other layouts and the objects that they need stay unchanged.

This module finds superseded objects, `tagging` tags them. A scan lists the folders of the steps, and the objects of
superseded steps that are not done. The requests thus depend on the objects to tag, not on the content of the store.
`superseded.json` records the steps that are done across the attempts of the job.
"""

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from launcher.agent.checkpoint.layouts import keys_of
from launcher.agent.checkpoint_keys import commit_keys, step_of_folder, step_of_key
from launcher.agent.manifest import DCP_METADATA_NAME, SUPERSEDED_KEY, SUPERSEDED_SCHEMA, Manifest, superseded_steps
from launcher.agent.store.objects import Store

LATER_VERSION = "of a later version"
"""Replaces the layout keys of checkpoints that this version cannot read."""
WITHDRAWN = "out of the running"
"""Replaces the layout keys of checkpoints that a user withdrew (`launcher.agent.withdrawn`)."""

_MAX_SHARED = 1000
"""If newer steps share more objects than this with a step, every attempt inspects it again; the record stays small."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetainedCheckpoint:
    """A retained complete checkpoint: its step (every object of it stays), and the objects that it needs of any step.

    `layouts` are the keys of its possible layouts (`layouts.keys_of`).
    """

    step: int
    needs: frozenset[str]
    layouts: frozenset[str]


Inspect = Callable[[int, str, dict[str, int]], list[RetainedCheckpoint]]
"""Maps step, folder and object sizes by key to the step's complete checkpoints, the last written first."""


def retained_form(manifest: Manifest) -> RetainedCheckpoint:
    """The retained form of a checkpoint that the agent wrote."""
    needs = frozenset(file.key for file in manifest.files)
    return RetainedCheckpoint(step=manifest.step, needs=needs, layouts=keys_of(manifest))


class Retention:
    """The superseded objects of one store. Safe to use from two threads: one commits, the other scans."""

    def __init__(self, store: Store, *, keep: int, inspect: Inspect, newest: RetainedCheckpoint | None = None) -> None:
        """`keep` is at least 1; this attempt resumes from `newest`."""
        self._store = store
        self._keep = keep
        self._inspect = inspect
        self._lock = threading.Lock()
        self._newest = newest.step if newest is not None else None
        self._kept = [newest] if newest is not None else []
        self._begun_at = self._newest
        self._committed = {checkpoint.step for checkpoint in self._kept}
        self._judged: set[str] = set()
        self._looked_ahead = False
        self._earlier: list[RetainedCheckpoint] = []
        self._others: list[RetainedCheckpoint] = []
        self._others_to_report: list[RetainedCheckpoint] = []
        self._remembered: dict[int, set[str]] | None = None
        self._tagged: set[str] = set()

    def refusal_reason(self, manifest: Manifest) -> str | None:
        """The reason not to commit a checkpoint: it references another step's object that may expire; None: no reason.

        A node decides which files to reuse some time before the commit, and other commits may happen meanwhile.
        """
        with self._lock:
            retained_keys = frozenset().union(*(checkpoint.needs for checkpoint in self._kept))
        for file in manifest.files:
            if step_of_key(file.key) != manifest.step and file.key not in retained_keys:
                return f"{file.path} of node {file.part} lies in {file.key}, which may have been superseded"
        return None

    def record_commit(self, newest: RetainedCheckpoint) -> None:
        """Record a new complete checkpoint: its objects stay; no commit may reference objects of older ones alone.

        The committing thread decides this here, so that Slipway tags no object that a commit may still reference.
        """
        with self._lock:
            self._newest = newest.step
            self._committed.add(newest.step)
            self._kept = [newest, *(checkpoint for checkpoint in self._kept if checkpoint.step != newest.step)][
                : self._keep
            ]

    def superseded_steps(self) -> Iterator[tuple[int, list[str]]]:
        """The steps below the newest that have objects to tag, ascending, each with its keys.

        Objects of a step above the newest may still be uploading and stay unchanged.
        """
        with self._lock:
            newest, checkpoints = self._newest, list(self._kept)
        if newest is None:
            return
        folders = {name: step for name in self._store.folders() if (step := step_of_folder(name)) is not None}
        record = self._record({*folders.values()})
        open_folders = {name: step for name, step in folders.items() if step < newest and record.get(step) != set()}
        # At first also what lies ahead: a checkpoint of another layout may need objects of the steps below.
        ahead = {} if self._looked_ahead else {name: step for name, step in folders.items() if step >= newest}
        sizes: dict[str, int] = {}
        for name in (*open_folders, *ahead):
            sizes |= self._store.sizes(f"{name}/")
        self._inspect_once(open_folders | ahead, sizes, layouts=checkpoints[0].layouts)
        self._looked_ahead = True
        checkpoints += self._earlier
        checkpoints = sorted(checkpoints, key=lambda checkpoint: checkpoint.step, reverse=True)[: self._keep]
        needed = frozenset().union(*(checkpoint.needs for checkpoint in (*checkpoints, *self._others)))
        left_alone = {checkpoint.step for checkpoint in (*checkpoints, *self._others)}
        for step in sorted({*open_folders.values()} - left_alone):
            keys = {key for key in sizes if step_of_key(key) == step}
            superseded = keys - needed - self._tagged
            if step in record:
                superseded &= record[step]
            if superseded:
                yield step, sorted(superseded)
            elif len(keys & needed) <= _MAX_SHARED:
                record[step] = keys & needed
                self._tagged -= keys
        if record != self._remembered:
            write_record(self._store, record)
            self._remembered = record

    def record_tag(self, key: str) -> None:
        """Record that an object carries the tag."""
        self._tagged.add(key)

    def _record(self, present: set[int]) -> dict[int, set[str]]:
        """The record of the steps that still exist: the keys that were needed when all others were tagged.

        This attempt may rewrite later steps, so the record is valid only for steps before its start.
        """
        if self._remembered is None:
            begun_at = self._begun_at
            recorded = read_record(self._store) if begun_at is not None else {}
            self._remembered = {at: keys for at, keys in recorded.items() if begun_at is not None and at < begun_at}
        return {step: keys for step, keys in self._remembered.items() if step in present}

    def other_layouts(self) -> list[RetainedCheckpoint]:
        """The checkpoints of other layouts that were found and left unchanged; each is returned once."""
        checkpoints, self._others_to_report = self._others_to_report, []
        return checkpoints

    def _inspect_once(self, folders: Mapping[str, int], sizes: dict[str, int], *, layouts: frozenset[str]) -> None:
        """Sort the checkpoints of earlier attempts: those of this layout, up to the limit, and those of others."""
        for name, step in sorted(folders.items(), key=lambda item: item[1], reverse=True):
            marks = [*commit_keys(step, sizes), *({f"{name}/{DCP_METADATA_NAME}"} & sizes.keys())]
            if name in self._judged or (step in self._committed and len(marks) == 1):
                continue
            self._judged.add(name)
            stored = self._inspect(step, name, sizes)
            others = [checkpoint for checkpoint in stored if not checkpoint.layouts & layouts]
            self._others += others
            self._others_to_report += others
            earlier = self._begun_at is not None and step < self._begun_at
            if earlier and len(stored) > len(others) and len(self._earlier) < self._keep - 1:
                self._earlier.append(next(checkpoint for checkpoint in stored if checkpoint.layouts & layouts))


def read_record(store: Store) -> dict[int, set[str]]:
    """The steps in which all objects except the given keys are tagged; empty if the record is unusable."""
    stored = store.find_text(SUPERSEDED_KEY)
    return superseded_steps(stored.text) if stored is not None else {}


def write_record(store: Store, steps: Mapping[int, Iterable[str]]) -> None:
    """Record the steps in which all objects except the given keys are tagged."""
    document = {"schema": SUPERSEDED_SCHEMA, "steps": {str(step): sorted(keys) for step, keys in sorted(steps.items())}}
    store.write_text(SUPERSEDED_KEY, json.dumps(document) + "\n")
