"""The contents of a checkpoint store, and the verified, deleted or restored checkpoints: `slipway checkpoints`."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from launcher.agent.manifest import StoredFile
from launcher.answers.lines import wrapped
from launcher.answers.table import Column, render
from launcher.records.checkpoints import Checkpoint
from launcher.records.codec import Json, picked

_UNIT = 1024.0
_MAX_EXPIRING = 3
"""Expiring checkpoints with one row each; further ones are counted in one line."""
WRITERS = {"": "", "dcp": "PyTorch (DCP)"}
"""Writers of a checkpoint; a checkpoint in the agent's own form was written by a run."""


def document(name: str, uri: str, stored: tuple[Checkpoint, ...]) -> Json:
    """slipway.checkpoints/1."""
    keys = "step folder format=form whole=complete reason files bytes run attempt written_at layout unit superseded"
    checkpoints = [picked(checkpoint, keys) | {"files": len(checkpoint.files)} for checkpoint in stored]
    return {"schema": "slipway.checkpoints/1", "name": name, "uri": uri, "checkpoints": checkpoints}


def verify_document(name: str, uri: str, read: Iterable[tuple[Checkpoint, Sequence[str]]]) -> Json:
    """slipway.checkpoints-verify/1; `by` names the check: hashes or sizes."""
    checkpoints = [
        {
            "step": checkpoint.step,
            "whole": not wrong,
            "by": "hashes" if checkpoint.form == "agent" else "sizes",
            "files": len(checkpoint.files),
            "problems": list(wrong),
        }
        for checkpoint, wrong in read
    ]
    return {"schema": "slipway.checkpoints-verify/1", "name": name, "uri": uri, "checkpoints": checkpoints}


def verified_lines(checkpoint: Checkpoint, wrong: Sequence[str]) -> list[str]:
    """One verified checkpoint, and its problems."""
    hashes = "hashes" if checkpoint.form == "agent" else "sizes; PyTorch keeps no hashes"
    state = "incomplete" if wrong else f"complete, {len(checkpoint.files)} files, by {hashes}"
    return [f"  step {checkpoint.step}: {state}", *(f"    {line}" for line in wrong)]


def prune_document(name: str, uri: str, steps: Sequence[int], sizes: Mapping[str, int], *, done: bool) -> Json:
    """slipway.checkpoints-prune/1; `done` is false if nothing was deleted."""
    about = {"schema": "slipway.checkpoints-prune/1", "name": name, "uri": uri, "done": done}
    return about | {"steps": list(steps), "objects": len(sizes), "bytes": sum(sizes.values())}


def restore_document(name: str, uri: str, step: int, folder: Path, files: Sequence[StoredFile]) -> Json:
    """slipway.checkpoints-restore/1: the location of a restored checkpoint."""
    about = {"schema": "slipway.checkpoints-restore/1", "name": name, "uri": uri, "step": step}
    return about | {"folder": str(folder), "files": len(files), "bytes": sum(file.bytes for file in files)}


def _writer(checkpoint: Checkpoint) -> str:
    """The writer of a checkpoint: for a run, its start and digest (the plan's name is the same in every row)."""
    return WRITERS.get(checkpoint.form or "", "-".join((checkpoint.run or "").rsplit("-", 2)[-2:]))


def page(uri: str, checkpoints: tuple[Checkpoint, ...], width: int) -> list[str]:
    """The steps, newest first; if more than a few expire, these are one line."""
    lines = ["", *wrapped(f"  {uri}", width), ""]
    if not checkpoints:
        return [*lines, "  no checkpoint yet"]
    columns: list[Column[Checkpoint]] = [
        Column("step", lambda checkpoint: str(checkpoint.step), "right"),
        Column("whole", lambda checkpoint: "yes" if checkpoint.complete else "no"),
        Column("expires", lambda checkpoint: "yes" if checkpoint.superseded else "", yields=0),
        Column("files", lambda checkpoint: str(len(checkpoint.files)) if checkpoint.files else "", "right", yields=3),
        Column("own size", lambda checkpoint: size_text(checkpoint.bytes), "right"),
        Column("saved (UTC)", lambda checkpoint: (checkpoint.written_at or "")[:19].replace("T", " ")),
        Column(
            "attempt",
            lambda checkpoint: "" if checkpoint.attempt is None else str(checkpoint.attempt),
            "right",
            yields=2,
        ),
        Column("layout", lambda checkpoint: checkpoint.layout or "", yields=1),
        Column("by", _writer, yields=0, shrinks=True),
    ]
    expiring = [checkpoint for checkpoint in checkpoints if checkpoint.superseded]
    folded = len(expiring) > _MAX_EXPIRING
    shown = [checkpoint for checkpoint in checkpoints if not (folded and checkpoint.superseded)]
    lines += render(columns, shown, width)
    for checkpoint in shown:
        if checkpoint.reason is not None:
            lines += wrapped(f"  step {checkpoint.step}: {checkpoint.reason}", width)
    if folded:
        size = size_text(sum(checkpoint.bytes for checkpoint in expiring))
        about = f"steps {expiring[-1].step} to {expiring[0].step}, {size}"
        lines += ["", *wrapped(f"  {len(expiring)} more checkpoints expire ({about}): --json lists them", width)]
    return lines


def size_text(count: float) -> str:
    """Bytes in a readable unit.

    >>> size_text(512), size_text(1536), size_text(3 * 1024**3)
    ('512 B', '1.5 KiB', '3.0 GiB')
    """
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < _UNIT:
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= _UNIT
    return f"{count:.1f} TiB"
