"""Removes from the other nodes the checkpoints that the trainer has removed from the first one.

In most frameworks only rank 0 removes old checkpoints (transformers 5.23.0 trainer.py:3415, torchtitan
components/checkpoint/base.py:266), and the shards of other nodes stay on their disks. The first node announces which
checkpoints are stored, superseded and removed from its folder; the others remove theirs. The same holds for the others
of a set (a best model), by name, once the newest stored set has none of that name.
"""

import os
from pathlib import Path

from launcher.agent.checkpoint.files import LocalFile, changed_since, survey
from launcher.agent.checkpoint.finished import FinishedFolder
from launcher.agent.checkpoint.leftover_files import remove, size_of
from launcher.agent.errors import UnusableCheckpointError
from launcher.agent.events import EventLog
from launcher.agent.node.peers import Peers

_POLL_S = 5.0
_MAX_SAID = 100


class Rotation:
    """Repeats the first node's removals on the other nodes."""

    def __init__(self, checkpoints: Path, peers: Peers, log: EventLog, *, restored: FinishedFolder | None) -> None:
        """Start with the checkpoint that came from the store, which counts as finished and stored."""
        self._checkpoints, self._peers, self._log = checkpoints, peers, log
        # By step: the names of the checkpoint itself, and those of all in its set.
        self._names: dict[int, tuple[tuple[str, ...], tuple[str, ...]]] = {}
        # The others of every set, with the files that they had in the newest one.
        self._others: dict[str, tuple[int, tuple[LocalFile, ...]]] = {}
        self._stored: set[int] = set()
        self._said: tuple[list[int], list[str]] = ([], [])
        self._next_poll = 0.0
        if restored is not None:
            self.record_finished(restored)
            self.record_stored(restored.step)

    def record_finished(self, folder: FinishedFolder) -> None:
        """Record that a checkpoint is finished on this node."""
        self._names[folder.step] = (folder.leading, folder.names)
        for name in folder.others:
            files = tuple(file for file in folder.files if f"{file.path}/".startswith(f"{name}/"))
            self._others[name] = folder.step, files

    def record_stored(self, step: int) -> None:
        """On the first node: record that a checkpoint is complete in the store."""
        self._stored.add(step)

    def poll(self, now: float) -> None:
        """Announce or repeat removals, at most every 5 seconds (`now`: monotonic seconds)."""
        if self._peers.alone or now < self._next_poll:
            return
        self._next_poll = now + _POLL_S
        if self._peers.part == 0:
            self._announce()
        else:
            self._follow()

    def _announce(self) -> None:
        newest = max(self._stored, default=-1)
        superseded = sorted(step for step in self._stored & self._names.keys() if step < newest)
        removed = [step for step in superseded if not any(os.path.lexists(path) for path in self._paths(step))]
        others = [
            name
            for name, (step, _) in sorted(self._others.items(), key=lambda other: other[1][0])
            if step < newest and name not in self._current(newest) and not os.path.lexists(self._checkpoints / name)
        ]
        said = removed[-_MAX_SAID:], others[-_MAX_SAID:]
        if said != self._said:
            self._said = said
            self._peers.publish_state(gone=said[0], gone_others=said[1])

    def _follow(self) -> None:
        first = self._peers.first()
        removed, others = first.get("gone"), first.get("gone_others")
        for step in removed if isinstance(removed, list) else ():
            if step in self._names:
                self._remove(step, self._paths(step))
                del self._names[step]
        for name in others if isinstance(others, list) else ():
            if name in self._others:
                step, files = self._others.pop(name)
                if self._is_unchanged(name, files) and name not in self._current(step + 1):
                    self._remove(step, [self._checkpoints / name])

    def _remove(self, step: int, paths: list[Path]) -> None:
        present = [path for path in paths if os.path.lexists(path)]
        size = sum(size_of(path) for path in present)
        for path in present:
            remove(path)
        if present:
            self._log.append("checkpoint-rotated", step=step, bytes=size)

    def _is_unchanged(self, name: str, files: tuple[LocalFile, ...]) -> bool:
        """Whether the trainer has not written to it since: the first node's word may be some seconds old."""
        try:
            return not changed_since(files, survey(self._checkpoints, (name,)).files)
        except (UnusableCheckpointError, OSError):
            return False  # it is gone here too

    def _current(self, least: int) -> set[str]:
        """The names of all checkpoints from a step on, with those of their sets."""
        return {name for step, (_, names) in self._names.items() if step >= least for name in names}

    def _paths(self, step: int) -> list[Path]:
        """The paths of a step's checkpoint, except paths that also belong to a newer one.

        The others of its set stay: the trainer may need them longer (a best model).
        """
        shared = self._current(step + 1)
        return [self._checkpoints / name for name in self._names[step][0] if name not in shared]
