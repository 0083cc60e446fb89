"""When is a checkpoint finished? The rules of the contract, made sound.

A folder `step-N` or `checkpoint-N` is finished when one of these holds:

1. It was renamed into place: the kernel reported a rename to that name.
2. It holds a file `_DONE`.
3. Nothing in it changed for 10 seconds. A guess, for a trainer may pause in the middle: it holds only where rules 1 and
   2 have never held in this run, and a folder that was taken so and changes after all is said and looked at anew.

A folder that appears under its final name may have just been begun, so a look at it alone proves nothing; where the
kernel does not tell renames, the other two rules remain. After the command has ended nothing changes any more, and rule
3 would call a folder finished that was torn off in the middle: then it counts only if the ten seconds had passed before
the end, or if the command ended by itself with exit code 0, so that all it wrote is as it meant it.

A finished folder is reported with what it held at that moment. One that holds what cannot be stored is reported too:
who is to store it says why it does not.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from launcher.agent.checkpoint.files import LocalFile, Survey, changed_since, survey
from launcher.agent.errors import UnusableCheckpointError
from launcher.agent.manifest import step_of_folder
from launcher.agent.node.inotify import RenameWatch

QUIET_S = 10.0
DONE_NAME = "_DONE"


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedFolder:
    """A finished checkpoint on the node.

    Attributes:
        step: N of its name.
        path: Where it is.
        files: What it held when it was finished.
        guessed: Only that it was quiet speaks for its being finished.
        write_s: How long it was seen to grow, to the length of a look.
        hashes: SHA-256 by path, of what an earlier agent left and had read.
    """

    step: int
    path: Path
    files: tuple[LocalFile, ...]
    guessed: bool = False
    write_s: float = 0.0
    hashes: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class _Candidate:
    """A folder that is not known to be finished: what was in it, and since when (monotonic seconds)."""

    found: Survey
    since: float


class CheckpointWatch:
    """Finds finished checkpoints in one folder, each once."""

    def __init__(
        self,
        checkpoints: Path,
        *,
        restored: Path | None = None,
        marked: bool = False,
        on_mark: Callable[[], None] = lambda: None,
    ) -> None:
        """Begin to watch.

        Args:
            checkpoints: The checkpoint folder.
            restored: The checkpoint that came from the store; it is not reported.
            marked: Checkpoints of this run are known to be renamed into place or to get a `_DONE`.
            on_mark: Called when that is seen for the first time.
        """
        self._folder = checkpoints
        self._renames = RenameWatch(checkpoints)
        self._marked = marked
        self._on_mark = on_mark
        self._reported: dict[int, FinishedFolder | None] = {}
        self._candidates: dict[str, _Candidate] = {}
        self._first_seen: dict[int, float] = {}
        self._looked_at: float | None = None
        self._restored = None if restored is None else restored.name
        self._changes: list[tuple[int, str]] = []
        self.wrote = False
        """Whether anything was ever seen in the folder, under whatever name, that was not restored."""
        if restored is not None and (step := step_of_folder(restored.name)) is not None:
            self._reported[step] = None

    def poll(self, now: float) -> list[FinishedFolder]:
        """The checkpoints that are finished and were not reported before, in the order of their steps.

        Args:
            now: Monotonic seconds.
        """
        guessed = [folder for folder in self._reported.values() if folder is not None and folder.guessed]
        self._look_again(guessed[-1:], now)
        return self._collect(now, all_of_them=False)

    def settle(self, now: float, *, clean: bool) -> list[FinishedFolder]:
        """The last look, when the command and all it started have ended.

        Args:
            now: Monotonic seconds of the end.
            clean: The command ended by itself with exit code 0.
        """
        self._look_again([folder for folder in self._reported.values() if folder is not None], now)
        found = self._collect(now, all_of_them=clean)
        self._renames.close()
        return found

    def changes(self) -> list[tuple[int, str]]:
        """The checkpoints that changed after they were reported, and how; each change is told once."""
        changes, self._changes = self._changes, []
        return changes

    def unfinished(self) -> dict[str, str]:
        """Names of the folders that were never finished, and why; of a node that writes nothing there are none."""
        if not self.wrote:
            return {}
        never, empty = "it was not finished when the command ended", "it holds no file"
        found = {name: self._candidates[name].found for name in sorted(self._candidates)}
        return {name: never if inside.files or inside.obstacle else empty for name, inside in found.items()}

    def _collect(self, now: float, *, all_of_them: bool) -> list[FinishedFolder]:
        # Renames first: a folder renamed after this line is found by the next look, never misjudged by this one.
        renamed = self._renames.names()
        found = []
        paths = self._paths()
        begun = self._begun(paths, now)
        there = {path.name for path in paths}
        self._candidates = {name: each for name, each in self._candidates.items() if name in there}
        for path in paths:
            step = step_of_folder(path.name)
            if step is None or step in self._reported:
                continue
            try:
                inside = survey(path)
            except UnusableCheckpointError:  # something went away while it was looked at
                self._candidates.pop(path.name, None)
                continue
            ended = self._quiet_since(path.name, inside, now)
            guessed = not (path.name in renamed or any(file.path == DONE_NAME for file in inside.files))
            if not (inside.files or inside.obstacle) or (guessed and not all_of_them and not self._counts(now, ended)):
                continue
            if not guessed and not self._marked:
                self._marked = True
                self._on_mark()
            self._candidates.pop(path.name, None)
            write_s = max(0.0, ended - begun.get(path, now))
            folder = FinishedFolder(step=step, path=path, files=inside.files, guessed=guessed, write_s=write_s)
            self._reported[step] = folder
            found.append(folder)
        return sorted(found, key=lambda folder: folder.step)

    def _counts(self, now: float, since: float) -> bool:
        """Whether ten quiet seconds say that a folder is finished, and have passed."""
        return not self._marked and now - since >= QUIET_S

    def _quiet_since(self, name: str, found: Survey, now: float) -> float:
        """Since when a folder is as it is now, to the length of a look."""
        candidate = self._candidates.get(name)
        if candidate is None or candidate.found != found:
            candidate = self._candidates[name] = _Candidate(found=found, since=now)
        return candidate.since

    def _look_again(self, folders: list[FinishedFolder], now: float) -> None:
        """Have they changed since they were reported? Of one that was only quiet, that was not the end then."""
        for folder in folders:
            try:
                found = survey(folder.path)
            except UnusableCheckpointError:
                continue  # the trainer removes it
            change = changed_since(folder.files, found.files)
            if not change:
                continue
            if folder.guessed:
                del self._reported[folder.step]
                self._candidates[folder.path.name] = _Candidate(found=found, since=now)
                self._changes.append((folder.step, f"{change} after ten quiet seconds: it is taken anew"))
            else:
                self._changes.append((folder.step, f"{change} after it was finished: what is stored is as it was then"))

    def _begun(self, paths: list[Path], now: float) -> dict[Path, float]:
        """Since when each folder is there, known by its inode over a rename: at the latest since the last look."""
        begun: dict[Path, float] = {}
        seen: dict[int, float] = {}
        before = now if self._looked_at is None else self._looked_at
        for path in paths:
            try:
                inode = path.lstat().st_ino
            except OSError:
                continue
            seen[inode] = begun[path] = self._first_seen.get(inode, before)
        self._first_seen, self._looked_at = seen, now
        return begun

    def _paths(self) -> list[Path]:
        try:
            entries = [path for path in self._folder.iterdir() if path.name != self._restored]
        except OSError:
            return []  # the command took its checkpoint folder away; there is nothing to find
        self.wrote = self.wrote or any(_holds_something(path) for path in entries)
        return entries


def _holds_something(path: Path) -> bool:
    """Whether it is a file, or a folder with one somewhere below: ranks that write nothing make empty folders too."""
    if path.is_symlink() or not path.is_dir():
        return True
    return any(files or any((Path(root) / name).is_symlink() for name in names) for root, names, files in os.walk(path))
