"""Reports in time that Slipway does not recognise a trainer's files, or that the trainer writes nothing."""

import os
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from launcher.agent.attempt_state import IF_CHECKPOINTS

NOT_RECOGNISED = "checkpoints-not-recognised"
NO_CHECKPOINT = "no-checkpoint-yet"
LONGEST_S = 600.0
_INTERVALS = 2
_NAMED = 5
_NUMBER = re.compile(r"\d+")


def patience_s(interval_s: float) -> float:
    """Seconds without a write until the agent reports it: two intervals, at most ten minutes."""
    return min(_INTERVALS * interval_s, LONGEST_S)


class Recognition:
    """Measures how long a trainer runs without a checkpoint, and reports it once."""

    def __init__(
        self, folder: Path, trees: Iterable[Path] = (), *, interval_s: float, on_problem: Callable[[str, str], None]
    ) -> None:
        """Record the current entries of the folder, and of folders below it, which this attempt did not write."""
        self._there = {path: _stamp(path) for place in (folder, *trees) for path in entries_of(place)}
        self._folder = folder
        self._patience_s = patience_s(interval_s)
        self._report = on_problem
        self._begun_at: float | None = None
        self._changed_at: float | None = None
        self._reported: set[str] = set()

    def is_new(self, path: Path) -> bool:
        """Whether this attempt wrote the path."""
        return self._there.get(path) != _stamp(path)

    def evaluate(
        self,
        now: float,
        *,
        recognised: bool,
        others: Sequence[Path],
        newest: str = "",
        ended: bool = False,
        lacks: str = "",
        least_s: float = 0.0,
    ) -> None:
        """Evaluate one poll of the folder.

        `recognised`: a checkpoint was written before. `others`: other paths that were written. `newest`: the checkpoint
        that they are newer than. `lacks`: what they lack. `least_s`: the patience in seconds at the least.
        """
        self._begun_at = now if self._begun_at is None else self._begun_at
        if recognised:
            return
        if others:
            self._changed_at = now if self._changed_at is None else self._changed_at
            if ended or now - self._changed_at >= max(self._patience_s, least_s):
                names = ", ".join(path.name for path in others[:_NAMED]) + (", ..." if len(others) > _NAMED else "")
                fix = "" if lacks else pattern_fix([path.name for path in others])
                begin = "no file is recognised as a checkpoint, so none is stored"
                if newest:
                    why = "and" if lacks else "but have no step that can be read, so they"
                    begin = f"these files are newer than {newest}, {why} are not stored"
                reason = f"{begin}: {names}{lacks}{fix}"
                self._once(NOT_RECOGNISED, reason)
        elif newest:
            self._changed_at = None
        elif not ended and now - self._begun_at >= self._patience_s:
            self._once(NO_CHECKPOINT, f"nothing was written to {self._folder} for {now - self._begun_at:.0f} s")

    def _once(self, event: str, reason: str) -> None:
        if event not in self._reported:
            self._reported.add(event)
            self._report(event, reason)


def written_elsewhere(nodes: int) -> str:
    """What follows a report that the first node writes nothing, if others do; `nodes`: their bits.

    >>> written_elsewhere(0), written_elsewhere(0b10)[:36]
    ('', ', and node 1 wrote to its folder: th')
    """
    if not nodes:
        return ""
    return (
        f", and node {nodes.bit_length() - 1} wrote to its folder: the trainer's first rank runs there, and checkpoints"
        " are stored only if it runs on node 0; give the trainer's launcher $SLIPWAY_NODE_RANK as the node's rank"
    )


def pattern_fix(names: Sequence[str]) -> str:
    r"""The line of the plan that makes names with a number checkpoints, for the last of them.

    >>> print(pattern_fix(["log.txt", "model_00500.npz"]))
    ; if they are, write checkpoint: {pattern: 'model_(\d+)\.npz'}
    """
    numbered = [name for name in names if _NUMBER.search(name)]
    if not numbered:
        fixed = "|".join(re.escape(name) for name in names)
        return (
            f"{IF_CHECKPOINTS}and each save writes the same names again, write checkpoint: {{pattern: '{fixed}'}}; "
            "else name them with their step"
        )
    return f"{IF_CHECKPOINTS}write checkpoint: {{pattern: '{pattern_of(numbered[-1])}'}}"


def pattern_of(name: str) -> str:
    r"""The pattern of a checkpoint's name, whose last number is the step; without a number, of this name alone.

    >>> print(pattern_of("v2_model_00500.npz"), pattern_of("run-60k"), pattern_of("last.pt"))
    v2_model_(\d+)\.npz run\-(\d+)k last\.pt
    """
    stem = name.rpartition(".")[0]
    numbers = [*_NUMBER.finditer(stem if _NUMBER.search(stem) else name)]
    if not numbers:
        return re.escape(name)
    return re.escape(name[: numbers[-1].start()]) + r"(\d+)" + re.escape(name[numbers[-1].end() :])


def entries_of(folder: Path) -> list[Path]:
    """The entries of a folder; empty if there is none."""
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _stamp(path: Path) -> tuple[tuple[str, int, int], ...]:
    """Write times and sizes of a path and, for a folder, of its direct entries."""
    try:
        entries = [("", path.lstat())]
        if path.is_dir() and not path.is_symlink():
            with os.scandir(path) as inside:
                entries += [(entry.name, entry.stat(follow_symlinks=False)) for entry in inside]
    except OSError:
        return ()
    return tuple(sorted((name, status.st_mtime_ns, status.st_size) for name, status in entries))
