"""Detects when a checkpoint is finished.

A checkpoint (as `layouts` defines it) is finished if one of these conditions holds:

1. It was renamed into place: the kernel reported a rename to that name.
2. It contains a file `_DONE`.
3. Nothing in it changed for 10 seconds, and its framework's marker or tracker exists on the first node. Without a
   marker this is a guess, because a trainer may pause: it counts only while rules 1 and 2 never applied in this run,
   and a folder that changes afterwards is reported and inspected again. With a marker no quiet period is needed once
   a later checkpoint was begun (DeepSpeed 0.19.8 runtime/engine.py:4900 waits for all ranks before the new folder).

A checkpoint that is written again is a new version of its step. Its name and its `_DONE` are those of the version
before, so that 2 quiet seconds are needed too, or the end of the command, or another rename into place.

A file with a fixed name is finished too if it is a zip archive (torch.save, numpy.savez) that has its directory, which
is written last. One whose step nothing tells may be in a run whose other checkpoints are renamed: 10 seconds without a
change count then too, once no process has it open for writing.

A folder under its final name may have just been begun, so one poll proves nothing. After the command has ended, rule 3
counts only if the 10 seconds had passed before the end, or if the command ended normally (exit code 0, or after a
request to save).

A finished folder is reported with its content at that moment, even if it holds entries that cannot be stored.
"""

import math
import os
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from launcher.agent.checkpoint.counting import Counting
from launcher.agent.checkpoint.entries import CheckpointEntry, Layouts, best_models
from launcher.agent.checkpoint.files import Survey, are_archives, survey
from launcher.agent.checkpoint.finished import FinishedFolder, with_others
from launcher.agent.checkpoint.layouts import UNCOUNTED, Layout, table
from launcher.agent.checkpoint.recognition import Recognition, entries_of
from launcher.agent.checkpoint.trainer_state import companions, has_end
from launcher.agent.checkpoint.versions import Versions, is_version
from launcher.agent.errors import UnusableCheckpointError
from launcher.agent.node.folder_users import is_written
from launcher.agent.node.inotify import RenameWatch

QUIET_S = 10.0
_QUIET_WITH_EVIDENCE_S = 2.0
"""Required quiet time before the end of the command, if the framework marked the checkpoint: eight polls."""
_ALONE_S = 0.5
"""The same for a single file that shows by its content that it is whole: two polls."""
_POLL_ALL_S = 2.0
"""Seconds between two checks of all finished checkpoints for changes; the newest is checked at every poll."""
_NEVER_QUIET = "; a fixed name counts after 10 s without a change: write another name, then rename it to this one"
DONE_NAME = "_DONE"
_UNFINISHED = "it was unfinished when the command ended"
_DOUBTFUL = "it may have been unfinished when the command ended"
_UNMARKED = f"checkpoints of this run are renamed into place or get a {DONE_NAME}, and it was seen to do neither"
_UNREPORTED = "reports of renames were lost, so that it may have been renamed into place or not"
_RECENT = "it was new or changed in the last {:g} s"


@dataclass(slots=True, kw_only=True)
class _Candidate:
    """A checkpoint not known to be finished: content, unchanged since when (monotonic seconds), and why."""

    survey: Survey
    since: float
    lacks: dict[str, str] = field(default_factory=dict)
    """By layout, what a line that matches its name misses at the last look."""
    doubts: dict[str, str] = field(default_factory=dict)
    """By layout, why it is not known to be finished by a line that misses nothing."""
    judged_at: float = -math.inf
    before: FinishedFolder | None = None
    """The version that was finished before, whose name and `_DONE` prove nothing about what it is now."""

    def judge(self, entry: CheckpointEntry, now: float, *, lacks: str = "", doubt: str = "") -> None:
        """Record why a line does not count it as finished; each look begins anew, with the likely lines first."""
        if self.judged_at != now:
            self.lacks, self.doubts, self.judged_at = {}, {}, now
        if lacks and self.why and entry.is_unlike:
            return  # another framework, which only has the same names
        reasons = self.lacks if lacks else self.doubts
        reasons.setdefault(entry.layout.layout, lacks or doubt)

    @property
    def is_undecided(self) -> bool:
        """Whether it may still count as finished without another write of the trainer."""
        return bool(self.doubts) or not self.lacks

    @property
    def why(self) -> str:
        """Why it does not count as finished; where several layouts match its name, for each of them."""
        reasons = self.doubts | self.lacks
        if len({*reasons.values()}) == 1:
            return next(iter(reasons.values()))
        return "; ".join(f"as {layout}: {reason}" for layout, reason in reasons.items())

    @property
    def in_place(self) -> bool:
        """Whether the trainer writes into the files of the version before."""
        if self.before is None:
            return False
        # A hard link to a file, as timm makes of its last one, changes neither its size nor its time.
        before = {file.path: (file.inode, file.bytes, file.modified_ns) for file in self.before.files}
        return self.before.in_place or any(
            file.inode == before[file.path][0] and (file.inode, file.bytes, file.modified_ns) != before[file.path]
            for file in self.survey.files
            if file.path in before
        )

    def unproven_s(self, renamed: int | None, *, proven: bool) -> float:
        """Required quiet time, also with evidence.

        `renamed`: inode of what a rename put into place alone. `proven`: its content shows that it is whole.
        """
        if renamed is not None and (self.before is None or self.before.inode != renamed):
            return 0.0
        if proven and len(self.survey.files) == 1:
            return _ALONE_S
        return _QUIET_WITH_EVIDENCE_S if proven or self.before is not None else 0.0


class CheckpointWatch:
    """Finds finished checkpoints in one folder, and reports each once."""

    def __init__(
        self,
        checkpoints: Path,
        *,
        layouts: Layouts | None = None,
        restored: FinishedFolder | None = None,
        marked: bool = False,
        on_mark: Callable[[], None] = lambda: None,
        interval_s: float = math.inf,
        on_problem: Callable[[str, str], None] = lambda *_: None,
        on_layout: Callable[[Layout], None] = lambda _: None,
        lead: Callable[[], str] | None = None,
        alone: bool = True,
    ) -> None:
        """Start watching.

        Args:
            checkpoints: The checkpoint folder.
            layouts: The layouts that count as checkpoints; None: all known layouts.
            restored: The checkpoint that came from the store; it is not reported.
            marked: Checkpoints of this run are known to be renamed into place or to get a `_DONE`.
            on_mark: Called at the first such rename or `_DONE`.
            interval_s: Seconds between checkpoints.
            on_problem: Called with an event and a reason if nothing is recognised for a long time.
            on_layout: Called when the framework's layout is known.
            lead: On other nodes than the first: returns the layout that the first node has found, empty until then. The
                framework marks finished checkpoints only on the first node.
            alone: The job has one node: a best model that is saved after its checkpoint makes a new version of that.
        """
        self._folder = checkpoints
        self._layouts = self._all_layouts = layouts or Layouts()
        self._on_layout = on_layout
        self._lead = lead
        self._alone = alone
        self._renames = RenameWatch(checkpoints)
        if self._renames.problem:
            on_problem(
                "renames-not-reported", f"renames are not detected as the end of a checkpoint: {self._renames.problem}"
            )
        self._marked = marked
        self._on_mark = on_mark
        self._counting = Counting()
        self._best: list[str] = []
        self._versions = Versions(checkpoints, restored)
        self._restarts: list[tuple[int, int, int]] = []
        self._all_polled_at = -math.inf
        self._reported: dict[int, FinishedFolder | None] = {}
        self._candidates: dict[tuple[str, str], _Candidate] = {}
        self._first_seen: dict[int, float] = {}
        self._looked_at: float | None = None
        self._restored_folder = restored
        self._restored = frozenset(() if restored is None else restored.names)
        self._restored_at = {name.partition("/")[0] for name in self._restored}
        self._changes: list[tuple[int, str]] = []
        # Folders with restored checkpoints, to which the trainer adds its own (OpenRLHF's `_actor`).
        self._trees = {checkpoints / name.rpartition("/")[0] for name in self._restored if "/" in name}
        self._recognition = Recognition(checkpoints, self._trees, interval_s=interval_s, on_problem=on_problem)
        self._recognised = False
        self.wrote = False
        """Whether this attempt ever wrote anything, under any name."""
        if restored is not None:
            named = self._layouts.step_in(checkpoints, restored.name)
            self._reported[UNCOUNTED if named is None else named] = None
            self._counting = Counting.after(restored, named)

    def poll(self, now: float) -> list[FinishedFolder]:
        """The finished checkpoints that were not reported before, in the order of their steps.

        `now` is in monotonic seconds.
        """
        reported = [folder for folder in self._reported.values() if folder is not None]
        if now - self._all_polled_at < _POLL_ALL_S:
            reported = reported[-1:]
        else:
            self._all_polled_at = now
        self._poll_again(reported, now)
        return self._collect(now, all_of_them=False)

    def settle(self, now: float, *, clean: bool, saved: bool = False) -> list[FinishedFolder]:
        """The last poll, after the command and all its processes have ended.

        `clean`: exit code 0. `saved`: it ended after a request to save; all is finished if it never marked or renamed.
        """
        self._poll_again([folder for folder in self._reported.values() if folder is not None], now)
        every = clean or (saved and not self._marked)
        finished = self._collect(now, all_of_them=every, last=True)
        self._poll_others(now, self._paths(), ended=True)
        self._renames.close()
        return finished

    def changes(self) -> list[tuple[int, str]]:
        """The checkpoints that changed after they were reported, and how; each change is returned once."""
        changes, self._changes = self._changes, []
        return changes

    def restarts(self) -> list[tuple[int, int, int]]:
        """Each restart of the trainer's counter once: the step in the name, the newest before, its place."""
        restarts, self._restarts = self._restarts, []
        return restarts

    def unfinished_reasons(self) -> dict[str, str]:
        """Names of checkpoints that were never finished, and why; empty for a node that writes nothing."""
        if not self.wrote:
            return {}
        reasons = {}
        finished = {name for folder in self._reported.values() if folder is not None for name in folder.names}
        for (name, _), candidate in sorted(self._candidates.items(), key=lambda item: item[0]):
            if name in finished:
                continue  # by another line of its layout
            holds = candidate.survey.files or candidate.survey.obstacle
            state = _DOUBTFUL if candidate.doubts else _UNFINISHED
            reasons[name] = f"{state}: {candidate.why}" if holds else "it holds no file"
        return reasons

    def _collect(self, now: float, *, all_of_them: bool, last: bool = False) -> list[FinishedFolder]:
        # Renames first: a folder renamed after this line is found by the next look, never misjudged by this one.
        renamed = self._renames.names()
        finished = []
        paths = self._paths()
        begun = self._since(paths, now)
        self._follow_the_lead()
        self._correct()
        self._see_the_restored()
        self._see_a_best_model(now)
        entries = self._layouts.entries_in(self._folder, doubtful=True)
        every = [entry for entry in entries if not self._is_restored(entry)]
        entries = self._versions.without_older(every)
        present = {_key(entry) for entry in entries}
        self._candidates = {key: candidate for key, candidate in self._candidates.items() if key in present}
        if self._lead is not None and not self._layouts.key and not last:
            # The first node says what the others are.
            entries = [entry for entry in entries if entry.names[0] in renamed]
        # Where several layouts fit, the one whose framework says that it has finished wins.
        lacking = {id(entry): self._lacking(entry, renamed) for entry in entries}
        for entry in sorted(entries, key=lambda one: _rank(one, lacking[id(one)])):
            if self._is_reported(entry) or entry.layout not in self._layouts.rows:
                continue
            if entry.layout.is_best and self._counting.covers(entry.step):
                continue  # one set with a newer checkpoint
            needed_s = _QUIET_WITH_EVIDENCE_S if last and entry.layout.has_evidence and self._lead is None else QUIET_S
            needed_s = 0.0 if all_of_them or (last and self._is_whole_file(entry)) else needed_s
            later = [one for one in entries if one.layout.key == entry.layout.key and one.step > entry.step]
            folder = self._inspect_entry(entry, lacking[id(entry)], renamed, now, needed_s=needed_s, later=later)
            if folder is None:
                continue
            ended = self._candidates.pop(_key(entry)).since
            if is_version(entry) and not self._versions.add(entry, every, known=bool(self._layouts.key)):
                continue
            self._decide(entry.layout)
            folder = replace(folder, write_s=max(0.0, ended - begun.get(folder.name, now)))
            self._reported[entry.step] = folder
            finished.append(folder)
        self._recognised = self._recognised or bool(finished)
        self._poll_others(now, paths)
        return self._in_order(finished)

    def _is_restored(self, entry: CheckpointEntry) -> bool:
        """Whether an entry came from the store, and is as it was."""
        restored = self._restored & {*entry.names}
        if entry.step == UNCOUNTED and self._restored_folder is None:
            # Of fixed names that were one set, any may be the next version.
            return any(not self._recognition.is_new(self._folder / name) for name in restored)
        return bool(restored)

    def _is_closed(self, entry: CheckpointEntry) -> bool:
        """Whether a fixed name may count by quiet in a run whose others are marked: no process writes it."""
        return is_version(entry) and not is_written(self._folder / entry.names[0])

    def _is_whole_file(self, entry: CheckpointEntry) -> bool:
        """Whether it is one archive with its directory, which is written last (torch.save), of a job on one node."""
        path = self._folder / entry.names[0]
        return (
            self._alone and not self._marked and len(entry.names) == 1 and path.is_file() and zipfile.is_zipfile(path)
        )

    def _is_reported(self, entry: CheckpointEntry) -> bool:
        """Whether a checkpoint was reported; without a step, this version of it, or a later one."""
        if is_version(entry):
            return self._versions.has(entry)
        reported = self._reported.get(entry.step)
        is_same = entry.step != UNCOUNTED or reported is None or reported.leading == entry.names
        return entry.step in self._reported and is_same

    def _in_order(self, finished: list[FinishedFolder]) -> list[FinishedFolder]:
        """The finished checkpoints in the order in which they were saved, each with its place."""
        placed = []
        # A version without a step counts only if it was saved after those with one.
        for folder in sorted(finished, key=lambda folder: (folder.step == UNCOUNTED, folder.step)):
            newest = self._counting.newest
            place = self._counting.place(folder)
            if self._counting.restarted:
                self._restarts.append((folder.step, newest, place))
            placed.append(replace(folder, step=place, counted=folder.step == UNCOUNTED))
            self._reported[folder.step] = placed[-1]
        return sorted(placed, key=lambda folder: folder.step)

    def _see_the_restored(self) -> None:
        """Once the trainer writes the restored checkpoint again, it is one like the others."""
        restored = self._restored_folder
        if restored is None or not restored.files:
            return
        try:
            change, _ = restored.look_again()
        except UnusableCheckpointError:
            return
        if change:
            self.wrote = True
            # Other checkpoints of its set are in the store, and older than what the trainer writes.
            others = {*restored.names} - {*restored.leading}
            self._restored_folder, self._restored = None, frozenset(others)
            self._reported = {step: folder for step, folder in self._reported.items() if folder is not None}

    def _inspect_entry(
        self,
        entry: CheckpointEntry,
        lacks: str,
        renamed: frozenset[str],
        now: float,
        *,
        needed_s: float,
        later: list[CheckpointEntry],
    ) -> FinishedFolder | None:
        """The checkpoint, if it is finished; with `needed_s` 0 no quiet period is needed."""
        try:
            inside = survey(entry.root, entry.entries)
        except UnusableCheckpointError:  # a file was removed during the inspection
            self._candidates.pop(_key(entry), None)
            return None
        candidate = self._candidate(_key(entry), inside, now)
        if not (inside.files or inside.obstacle):
            return None
        if lacks:
            candidate.judge(entry, now, lacks=lacks)
            return None
        guessed, proven, inode = self._evidence(entry, inside, renamed)
        if guessed and needed_s > 0 and self._marked and not self._is_closed(entry):
            candidate.judge(entry, now, lacks=_UNMARKED)
            return None
        doubtful = self._is_doubtful(entry)
        unproven_s = QUIET_S if doubtful and not guessed else candidate.unproven_s(inode, proven=proven)
        quiet_s = now - candidate.since
        unsure = guessed and quiet_s < needed_s and not _precedes(entry, inside, later)
        if needed_s > 0 and (quiet_s < unproven_s or unsure):
            recent = _RECENT.format(max(needed_s if unsure else 0.0, unproven_s))
            candidate.judge(entry, now, doubt=f"{_UNREPORTED}, and {recent}" if doubtful else recent)
            return None
        if not guessed and not proven and not self._marked:
            self._marked = True
            self._on_mark()
        finished = FinishedFolder(
            step=entry.step,
            path=entry.root,
            files=inside.files,
            guessed=guessed,
            folder=entry.folder,
            entries=entry.entries,
            layout=entry.layout.layout,
            unit=entry.layout.unit,
            folders=inside.folders,
            in_place=candidate.in_place,
            inode=_inode(self._folder / entry.names[0]),
        )
        return self._with_its_set(finished, entry)

    def _with_its_set(self, finished: FinishedFolder, entry: CheckpointEntry) -> FinishedFolder:
        best = best_models(entry.layout, self._folder, entry.step) if self._lead is None else ()
        named = companions(entry.layout.state, self._folder, finished.name)
        kept = self._versions.companions(entry.layout, finished.name) if self._lead is None else ()
        return with_others(finished, (*named, *best, *kept))

    def _evidence(
        self, entry: CheckpointEntry, inside: Survey, renamed: frozenset[str]
    ) -> tuple[bool, bool, int | None]:
        """Whether only quiet can show that it is finished, whether its content does, and the inode that a rename put.

        The last one is None if no rename did, or if it has several names.
        """
        by_name = entry.layout.kind != "group" and renamed.issuperset(entry.names)
        by_name = by_name and (self._marked or not self._is_doubtful(entry))
        has_step = entry.step != UNCOUNTED and has_end(self._folder / entry.names[0])
        proven = entry.layout.is_nameless and (has_step or are_archives(entry.root, inside.files))
        guessed = not (by_name or proven or any(file.path == DONE_NAME for file in inside.files))
        alone = by_name and len(entry.names) == 1
        return guessed, proven, _inode(self._folder / entry.names[0]) if alone else None

    def _is_doubtful(self, entry: CheckpointEntry) -> bool:
        """Whether reports of its rename may be lost: every present name may then have been renamed.

        That proves nothing of a run without renames.
        """
        return not self._renames.unproven.isdisjoint(entry.names)

    def _lacking(self, entry: CheckpointEntry, renamed: frozenset[str]) -> str:
        """The reason why the framework has not marked it as finished; empty on other nodes than the first."""
        if self._lead is not None:
            return ""
        reasons = (entry.layout.missing(self._folder, name, renamed=name in renamed) for name in entry.names)
        return next((reason for reason in reasons if reason), "")

    def _follow_the_lead(self) -> None:
        """On other nodes than the first: use the layout that the first node has found."""
        if self._lead is not None and (key := self._lead()) and key != self._layouts.key:
            self._layouts = self._all_layouts.only(key)

    def _decide(self, layout: Layout) -> None:
        """Record the framework's layout, which stays for the run."""
        if not self._layouts.key and self._lead is None:
            self._layouts = self._layouts.only(layout.key)
            self._on_layout(layout)

    def _correct(self) -> None:
        """Correct a layout without evidence if a late marker proves another one that matches the folder's name."""
        if self._lead is not None or not self._layouts.key or any(row.has_evidence for row in self._layouts.rows):
            return
        for entry in self._all_layouts.entries_in(self._folder):
            marked = entry.layout.marker and not entry.layout.missing(self._folder, entry.names[0], renamed=False)
            if marked and self._layouts.step_of(entry.names[0]) == entry.step and not self._restored & {*entry.names}:
                self._layouts = self._all_layouts.only(entry.layout.key)
                self._on_layout(entry.layout)
                return

    def _poll_others(self, now: float, paths: list[Path], *, ended: bool = False) -> None:
        """Report if this attempt writes files and none is recognised, or newer ones than the newest checkpoint."""
        lacks = next((f"; {key[0]}: {entry.why}" for key, entry in self._candidates.items() if entry.lacks), "")
        pending = [name for (name, _), candidate in self._candidates.items() if candidate.is_undecided]
        others, newest = self._new(paths), ""
        if self._recognised:
            last_ns, newest = max(((one.saved_ns, one.name) for one in self._reported.values() if one), default=(0, ""))
            others = self._layouts.unread(others, after_ns=last_ns)
            known = {name: candidate for (name, _), candidate in self._candidates.items() if candidate.lacks}
            lacks = next((f"; {known[path.name].why}" for path in others if path.name in known), "")
        elif self._layouts.key:
            alike = [row for path in others for row in table() if row.step_of(path.name) is not None]
            if alike and alike[0] not in self._layouts.rows:
                lacks = (
                    f"; this run's are of layout {self._layouts.rows[0].layout}, and these look like {alike[0].layout}"
                    ": name it as checkpoint.layout, or start at step 0 with --fresh"
                )
        least_s = 0.0
        rows = self._layouts.rows
        if pending and all(any(row.is_version(self._folder, name) for row in rows) for name in pending):
            pending, lacks, least_s = [], _NEVER_QUIET, 3 * QUIET_S
        recognised = (self._recognised and not others) or bool(pending)
        self._recognition.evaluate(
            now, recognised=recognised, others=others, newest=newest, ended=ended, lacks=lacks, least_s=least_s
        )

    def _candidate(self, key: tuple[str, str], files: Survey, now: float) -> _Candidate:
        """What is known of an entry that is not known to be finished, with its content of now."""
        candidate = self._candidates.get(key)
        if candidate is None or candidate.survey != files:
            before = candidate.before if candidate is not None else None
            candidate = self._candidates[key] = _Candidate(survey=files, since=now, before=before)
        return candidate

    def _poll_again(self, folders: list[FinishedFolder], now: float) -> None:
        for folder in folders:
            try:
                change, current = folder.look_again()
            except UnusableCheckpointError:
                continue  # the trainer removes it
            if not change:
                continue
            self._await_again(folder, current, now)
            if self._layouts.step_of(folder.name) is None:
                continue  # a fixed name: what the trainer writes there is its next checkpoint
            after = "10 s without changes" if folder.guessed else "it was finished"
            self._changes.append((folder.step, f"{change} after {after}: the agent stores it again"))

    def _await_again(self, folder: FinishedFolder, current: Survey, now: float) -> None:
        """Inspect a reported checkpoint again: what it is now is a new version of it."""
        self._reported = {step: one for step, one in self._reported.items() if one is not folder}
        self._versions.forget(folder, current)
        rows = [row for row in self._layouts.rows if row.matches(folder.name)]
        alone = folder.main and (folder.path / folder.name).is_dir() and not any(row.kind == "group" for row in rows)
        key = folder.name, folder.name if alone else folder.folder
        self._candidates[key] = _Candidate(survey=current, since=now, before=folder)

    def _see_a_best_model(self, now: float) -> None:
        """A best model that the trainer has saved after the newest checkpoint: the set is stored again with it."""
        reported = ((step, one) for step, one in self._reported.items() if one and one.step == self._counting.newest)
        named_step, newest = next(reported, (0, None))
        if newest is None or self._lead is not None or not self._alone:
            return
        row = next((row for row in self._layouts.rows if row.best and row.matches(newest.name)), None)
        best = best_models(row, self._folder, named_step) if row else ()
        added = [name for name in best if name not in (*newest.names, *self._best)]
        if added:
            self._best += added  # once: one that cannot be stored would be asked for at every look
            self._await_again(newest, Survey(files=()), now)
            self._changes.append((newest.step, f"its trainer saved {added[0]}: the agent stores both as one set"))

    def _since(self, paths: list[Path], now: float) -> dict[str, float]:
        """When each folder appeared, tracked by inode across renames; a new folder counts from the previous poll."""
        begun: dict[str, float] = {}
        first_seen: dict[int, float] = {}
        before = now if self._looked_at is None else self._looked_at
        for path in paths:
            try:
                inode = path.lstat().st_ino
            except OSError:
                continue
            first_seen[inode] = begun[path.name] = self._first_seen.get(inode, before)
        self._first_seen, self._looked_at = first_seen, now
        return begun

    def _paths(self) -> list[Path]:
        try:
            entries = [path for path in self._folder.iterdir() if path.name not in self._restored_at]
        except OSError:
            return []  # the command took its checkpoint folder away; there is nothing to find
        restored = {self._folder / name for name in self._restored}
        added = [path for tree in self._trees for path in entries_of(tree) if path not in restored]
        self.wrote = self.wrote or bool(self._new([*entries, *added]))
        return entries

    def _new(self, paths: list[Path]) -> list[Path]:
        """The entries of the folder that this attempt has written."""
        return sorted(path for path in paths if self._recognition.is_new(path) and _holds_something(path))


def _rank(entry: CheckpointEntry, lacks: str) -> tuple[bool, bool]:
    """The order in which the lines that match a name are inspected."""
    return bool(lacks) or not entry.layout.has_evidence, bool(lacks) and entry.is_unlike


def _key(entry: CheckpointEntry) -> tuple[str, str]:
    """The key of an inspected entry: one line may match a folder alone, another the folder with its neighbours."""
    return entry.names[0], entry.folder


def _precedes(entry: CheckpointEntry, inside: Survey, later: list[CheckpointEntry]) -> bool:
    """Whether the framework marks finished checkpoints, and has written to a later one since.

    Files that an earlier attempt left of a later step are older than this checkpoint.
    """
    if not later or not (entry.layout.marker or entry.layout.tracker):
        return False
    ended_ns = max((file.modified_ns for file in inside.files), default=0)
    for newer in later:
        try:
            if any(file.modified_ns > ended_ns for file in survey(newer.root, newer.entries).files):
                return True
        except UnusableCheckpointError:  # it is being removed
            continue
    return False


def _inode(path: Path) -> int:
    try:
        return path.lstat().st_ino
    except OSError:
        return 0


def _holds_something(path: Path) -> bool:
    """Whether it is a file, or a folder with a file below: ranks that write nothing create empty folders too."""
    if path.is_symlink() or not path.is_dir():
        return True
    return any(files or any((Path(root) / name).is_symlink() for name in names) for root, names, files in os.walk(path))
