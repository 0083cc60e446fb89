"""Removes from the other nodes the checkpoints that the trainer has removed from the first one.

In most frameworks only rank 0 removes old checkpoints (transformers 5.23.0 trainer.py:3415, torchtitan
components/checkpoint/base.py:266), and the shards of other nodes stay on their disks. The first node announces which
checkpoints are stored, superseded and removed from its folder; the others remove theirs.
"""

import os
from pathlib import Path

from launcher.agent.checkpoint.finished import FinishedFolder
from launcher.agent.checkpoint.leftover_files import remove, size_of
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
        self._stored: set[int] = set()
        self._said: list[int] = []
        self._look_at = 0.0
        if restored is not None:
            self.finished(restored)
            self.stored(restored.step)

    def finished(self, folder: FinishedFolder) -> None:
        """Record that a checkpoint is finished on this node."""
        self._names[folder.step] = (folder.leading, folder.names)

    def stored(self, step: int) -> None:
        """On the first node: record that a checkpoint is complete in the store."""
        self._stored.add(step)

    def poll(self, now: float) -> None:
        """Announce or repeat removals, at most every 5 seconds (`now`: monotonic seconds)."""
        if self._peers.alone or now < self._look_at:
            return
        self._look_at = now + _POLL_S
        if self._peers.part == 0:
            self._announce()
        else:
            self._follow()

    def _announce(self) -> None:
        newest = max(self._stored, default=-1)
        superseded = sorted(step for step in self._stored & self._names.keys() if step < newest)
        removed = [step for step in superseded if not any(os.path.lexists(path) for path in self._paths(step))]
        if removed[-_MAX_SAID:] != self._said:
            self._said = removed[-_MAX_SAID:]
            self._peers.publish_state(gone=self._said)

    def _follow(self) -> None:
        removed = self._peers.first().get("gone")
        for step in removed if isinstance(removed, list) else ():
            if step not in self._names:
                continue
            paths = [path for path in self._paths(step) if os.path.lexists(path)]
            size = sum(size_of(path) for path in paths)
            for path in paths:
                remove(path)
            del self._names[step]
            if paths:
                self._log.append("checkpoint-rotated", step=step, bytes=size)

    def _paths(self, step: int) -> list[Path]:
        """The paths of a step's checkpoint, except paths that also belong to a newer one.

        The others of its set stay: the trainer may need them longer (a best model), and only the first node's record of
        a newer checkpoint names them.
        """
        shared = {name for other, (_, names) in self._names.items() if other > step for name in names}
        return [self._checkpoints / name for name in self._names[step][0] if name not in shared]
