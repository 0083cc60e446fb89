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
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from launcher.agent.checkpoint.layouts import keys_of
from launcher.agent.checkpoint.order_record import read_order
from launcher.agent.manifest import (
    DCP_METADATA_NAME,
    SUPERSEDED_KEY,
    SUPERSEDED_SCHEMA,
    Manifest,
    commit_keys,
    step_of_folder,
    step_of_key,
    superseded_steps,
)
from launcher.agent.save_order import SaveOrder
from launcher.agent.store.objects import Store

LATER_VERSION = "of a later version"
"""Replaces the layout keys of checkpoints that this version cannot read."""

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


def retained(manifest: Manifest) -> RetainedCheckpoint:
    """The retained form of a checkpoint that the agent wrote."""
    needs = frozenset(file.key for file in manifest.files)
    return RetainedCheckpoint(step=manifest.step, needs=needs, layouts=keys_of(manifest))


class Retention:
    """The superseded objects of one store. Safe to use from two threads: one commits, the other scans."""

    def __init__(
        self,
        store: Store,
        *,
        keep: int,
        inspect: Inspect,
        newest: RetainedCheckpoint | None = None,
        session: str = "",
    ) -> None:
        """Retain the newest `keep` (at least 1) checkpoints; this attempt resumes from `newest`.

        `session`: identifies this attempt in the keys of its objects; empty if the trainer writes the store itself.
        """
        self._store = store
        self._keep = keep
        self._inspect = inspect
        self._session = session
        self._lock = threading.Lock()
        self._kept = [newest] if newest is not None else []
        self._begun_at = newest.step if newest is not None else None
        self._committed = {checkpoint.step for checkpoint in self._kept}
        self._sending: set[int] = set()
        self._judged: set[str] = set()
        self._earlier: list[RetainedCheckpoint] = []
        self._others: list[RetainedCheckpoint] = []
        self._others_to_report: list[RetainedCheckpoint] = []
        self._remembered: dict[int, set[str]] | None = None
        self._written: dict[int, set[str]] | None = None
        self._tagged: set[str] = set()
        self._given: set[str] = set()
        """The keys that were given to be tagged."""
        self._order: SaveOrder | None = None

    def sending(self, step: int) -> None:
        """Record that a step's objects are on their way: none of the step is tagged."""
        with self._lock:
            self._sending.add(step)

    def dropped(self, step: int) -> None:
        """Record that a step is not sent any more."""
        with self._lock:
            self._sending.discard(step)

    def refused(self, manifest: Manifest) -> str | None:
        """The reason not to commit a checkpoint: it references an object that may expire; None: no reason.

        A node decides which files to reuse some time before the commit, and other commits may happen meanwhile.
        """
        with self._lock:
            retained_keys = frozenset().union(*(checkpoint.needs for checkpoint in self._kept))
            given = frozenset(self._given)
        for file in manifest.files:
            elsewhere = step_of_key(file.key) != manifest.step
            if file.key in given or (elsewhere and file.key not in retained_keys):
                return f"{file.path} of node {file.part} lies in {file.key}, which may have been superseded"
        return None

    def committed(self, newest: RetainedCheckpoint, *, still_sending: bool = False) -> None:
        """Record a new complete checkpoint: its objects stay; no commit may reference objects of older ones alone.

        The committing thread decides this here, so that Slipway tags no object that a commit may still reference.
        `still_sending`: a later version of the step is on its way.
        """
        with self._lock:
            self._committed.add(newest.step)
            if not still_sending:
                self._sending.discard(newest.step)
            if self._remembered is not None:
                self._remembered.pop(newest.step, None)
            self._kept = [newest, *(checkpoint for checkpoint in self._kept if checkpoint.step != newest.step)][
                : self._keep
            ]

    def superseded(self) -> Iterator[tuple[int, list[str]]]:
        """The steps that have objects to tag, each with its keys: those older than the newest ones.

        Objects that are on their way stay unchanged.
        """
        with self._lock:
            checkpoints = list(self._kept)
        if not checkpoints:
            return
        if self._order is None:
            self._order = read_order(self._store) if self._session else SaveOrder()
        folders = {name: step for name in self._store.folders() if (step := step_of_folder(name)) is not None}
        record = self._record({*folders.values()})
        # Neither older nor of this attempt: it was skipped at the start, or is on its way from a trainer's own hand.
        own = {*self._older_than_begun({*folders.values()}), *self._committed}
        ahead = {name: step for name, step in folders.items() if step > checkpoints[0].step and step not in own}
        open_folders = {name: step for name, step in folders.items() if record.get(step) != set()}
        sizes: dict[str, int] = {}
        for name in open_folders:
            if name not in ahead or name not in self._judged:
                sizes |= self._store.sizes(f"{name}/")
        self._inspect_once(open_folders, sizes, layouts=checkpoints[0].layouts)
        checkpoints = [*checkpoints, *self._earlier][: self._keep]
        needed = frozenset().union(*(checkpoint.needs for checkpoint in (*checkpoints, *self._others)))
        left_alone = {checkpoint.step for checkpoint in (*checkpoints, *self._others)} | {*ahead.values()}
        left_alone |= {*self._order.withdrawn}
        for step in sorted({*open_folders.values()} - left_alone):
            keys = {key for key in sizes if step_of_key(key) == step and not self._is_under_way(key, step)}
            superseded = keys - needed - self._tagged
            if step in record:
                superseded &= record[step]
            if self._gives(step, superseded):
                yield step, sorted(superseded)
            elif not superseded and len(keys & needed) <= _MAX_SHARED:
                record[step] = keys & needed
                self._tagged -= keys
        self._remember(record)

    def _gives(self, step: int, keys: set[str]) -> bool:
        """Whether a step's objects are tagged now: none is while others of the step are on their way."""
        with self._lock:
            if not keys or step in self._sending:
                return False
            self._given |= keys
            return True

    def _remember(self, record: Mapping[int, set[str]]) -> None:
        with self._lock:
            remembered = {step: keys for step, keys in record.items() if step not in self._sending}
            self._remembered = remembered
        if remembered != self._written:
            write_record(self._store, remembered)
            self._written = dict(remembered)

    def _is_under_way(self, key: str, step: int) -> bool:
        """Whether another node may be sending an object now, for a step that this attempt has not committed."""
        return bool(self._session) and step not in self._committed and f"/{self._session}/" in key

    def tagged(self, key: str) -> None:
        """Record that an object carries the tag."""
        self._tagged.add(key)

    def _record(self, present: set[int]) -> dict[int, set[str]]:
        """The record of the steps that still exist: the keys that were needed when all others were tagged.

        It is valid only for steps that were older than the one from which this attempt resumed.
        """
        with self._lock:
            if self._remembered is None:
                recorded = read_record(self._store) if self._begun_at is not None else {}
                self._written = dict(recorded)
                older = self._older_than_begun({*recorded})
                again = self._committed | self._sending
                self._remembered = {step: recorded[step] for step in older if step not in again}
            return {step: keys for step, keys in self._remembered.items() if step in present}

    def _older_than_begun(self, steps: Collection[int]) -> list[int]:
        """The steps that were saved before the one from which this attempt resumed, the last saved first."""
        if self._begun_at is None:
            return []
        ranked = (self._order or SaveOrder()).ranked({*steps, self._begun_at})
        return ranked[ranked.index(self._begun_at) + 1 :]

    def of_other_layouts(self) -> list[RetainedCheckpoint]:
        """The checkpoints of other layouts that were found and left unchanged; each is returned once."""
        checkpoints, self._others_to_report = self._others_to_report, []
        return checkpoints

    def _inspect_once(self, folders: Mapping[str, int], sizes: dict[str, int], *, layouts: frozenset[str]) -> None:
        """Sort the checkpoints of earlier attempts: those of this layout, up to the limit, and those of others."""
        order = self._order or SaveOrder()
        older = self._older_than_begun({*folders.values()})
        rank = {step: place for place, step in enumerate(order.ranked({*folders.values()}))}
        for name, step in sorted(folders.items(), key=lambda item: rank[item[1]]):
            marks = [*commit_keys(step, sizes), *({f"{name}/{DCP_METADATA_NAME}"} & sizes.keys())]
            if name in self._judged or (step in self._committed and len(marks) == 1):
                continue
            self._judged.add(name)
            stored = self._inspect(step, name, sizes)
            if step in order.withdrawn:
                self._others += stored  # the user took them out of the running, and did not delete them
                continue
            others = [checkpoint for checkpoint in stored if not checkpoint.layouts & layouts]
            self._others += others
            self._others_to_report += others
            if step in older and len(stored) > len(others) and len(self._earlier) < self._keep - 1:
                self._earlier.append(next(checkpoint for checkpoint in stored if checkpoint.layouts & layouts))


def read_record(store: Store) -> dict[int, set[str]]:
    """The steps in which all objects except the given keys are tagged; empty if the record is unusable."""
    stored = store.find_text(SUPERSEDED_KEY)
    return superseded_steps(stored.text) if stored is not None else {}


def write_record(store: Store, steps: Mapping[int, Iterable[str]]) -> None:
    """Record the steps in which all objects except the given keys are tagged."""
    document = {"schema": SUPERSEDED_SCHEMA, "steps": {str(step): sorted(keys) for step, keys in sorted(steps.items())}}
    store.write_text(SUPERSEDED_KEY, json.dumps(document) + "\n")
