"""When is a checkpoint finished? The rules of the contract, made sound.

A folder `step-N` or `checkpoint-N` is finished when one of these holds:

1. It was renamed into place: the kernel reported a rename to that name.
2. It holds a file `_DONE`.
3. Nothing in it changed for 10 seconds.

A folder that appears under its final name may have just been begun, so a look at it alone proves nothing; where the
kernel does not tell renames, the other two rules remain. After the command has ended nothing changes any more, and rule
3 would call a folder finished that was torn off in the middle: then it counts only if the ten seconds had passed before
the end, or if the command ended by itself with exit code 0, so that all it wrote is as it meant it.
"""

from dataclasses import dataclass
from pathlib import Path

from launcher.agent.checkpoint.upload import LocalFile, local_files
from launcher.agent.errors import UnusableCheckpointError
from launcher.agent.manifest import step_of_folder
from launcher.agent.node.inotify import RenameWatch

QUIET_S = 10.0
DONE_NAME = "_DONE"


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedFolder:
    """A finished checkpoint on the node; `write_s` is how long it was seen to grow, to the length of a look."""

    step: int
    path: Path
    write_s: float = 0.0


@dataclass(slots=True, kw_only=True)
class _Candidate:
    """A folder that is not known to be finished: what was in it, and since when (monotonic seconds)."""

    files: tuple[LocalFile, ...]
    since: float


class CheckpointWatch:
    """Finds finished checkpoints in one folder, each once."""

    def __init__(self, checkpoints: Path, *, restored: Path | None = None) -> None:
        """Begin to watch.

        Args:
            checkpoints: The checkpoint folder.
            restored: The checkpoint that came from the store; it is not reported.
        """
        self._folder = checkpoints
        self._renames = RenameWatch(checkpoints)
        self._reported: set[int] = set()
        self._candidates: dict[str, _Candidate] = {}
        self._first_seen: dict[int, float] = {}
        self._looked_at: float | None = None
        self._restored = None if restored is None else restored.name
        self.wrote = False
        """Whether anything was ever seen in the folder, under whatever name, that was not restored."""
        if restored is not None:
            self._report_step(restored.name)

    def poll(self, now: float) -> list[FinishedFolder]:
        """The checkpoints that are finished and were not reported before, in the order of their steps.

        Args:
            now: Monotonic seconds.
        """
        return self._collect(now, all_of_them=False)

    def settle(self, now: float, *, clean: bool) -> list[FinishedFolder]:
        """The last look, when the command and all it started have ended.

        Args:
            now: Monotonic seconds of the end.
            clean: The command ended by itself with exit code 0.
        """
        found = self._collect(now, all_of_them=clean)
        self._renames.close()
        return found

    def unfinished(self) -> list[str]:
        """Names of the folders that were never finished."""
        return sorted(self._candidates)

    def _collect(self, now: float, *, all_of_them: bool) -> list[FinishedFolder]:
        # Renames first: a folder renamed after this line is found by the next look, never misjudged by this one.
        renamed = self._renames.names()
        found = []
        folders = self._folders()
        begun = self._begun(folders, now)
        for path in folders:
            step = step_of_folder(path.name)
            if step is None or step in self._reported:
                continue
            if self._is_finished(path, now, renamed=path.name in renamed, all_of_them=all_of_them):
                candidate = self._candidates.get(path.name)
                ended = candidate.since if candidate is not None else now
                self._report_step(path.name)
                found.append(FinishedFolder(step=step, path=path, write_s=max(0.0, ended - begun.get(path, now))))
        return sorted(found, key=lambda folder: folder.step)

    def _begun(self, folders: list[Path], now: float) -> dict[Path, float]:
        """Since when each folder is there, known by its inode over a rename: at the latest since the last look."""
        begun: dict[Path, float] = {}
        seen: dict[int, float] = {}
        before = now if self._looked_at is None else self._looked_at
        for path in folders:
            try:
                inode = path.stat().st_ino
            except OSError:
                continue
            seen[inode] = begun[path] = self._first_seen.get(inode, before)
        self._first_seen, self._looked_at = seen, now
        return begun

    def _is_finished(self, path: Path, now: float, *, renamed: bool, all_of_them: bool) -> bool:
        try:
            files = local_files(path)
        except UnusableCheckpointError:
            self._candidates.pop(path.name, None)
            return False
        if not files:
            return False
        if renamed or all_of_them or any(file.path == DONE_NAME for file in files):
            return True
        candidate = self._candidates.get(path.name)
        if candidate is None or candidate.files != files:
            self._candidates[path.name] = _Candidate(files=files, since=now)
            return False
        return now - candidate.since >= QUIET_S

    def _folders(self) -> list[Path]:
        try:
            entries = [path for path in self._folder.iterdir() if path.name != self._restored]
        except OSError:
            return []  # the command took its checkpoint folder away; there is nothing to find
        self.wrote = self.wrote or bool(entries)
        return [path for path in entries if path.is_dir() and not path.is_symlink()]

    def _report_step(self, name: str) -> None:
        step = step_of_folder(name)
        if step is not None:
            self._reported.add(step)
        self._candidates.pop(name, None)
