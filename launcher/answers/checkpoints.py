"""The contents of a checkpoint store, and the verified, deleted or restored checkpoints: `slipway checkpoints`."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from launcher.agent.checkpoint_keys import place_text
from launcher.agent.manifest import StoredFile
from launcher.answers.lines import fold
from launcher.answers.table import Column, render
from launcher.answers.words import first_of
from launcher.model.units import number_of
from launcher.records.checkpoints import Checkpoint
from launcher.records.codec import Json, as_json
from launcher.records.document import fill_record, json_object

_UNIT = 1024.0
_MAX_EXPIRING = 3
"""Expiring checkpoints with one row each; further ones are counted in one line."""
_WITHDRAWN = "no job resumes from it; launch --from-step brings it back, checkpoints prune deletes it"
_COMPLETE = "by names and sizes; slipway checkpoints verify NAME reads the contents"
_READ_IT = "slipway checkpoints verify NAME compares its content"
_COUNTED = "its place in the order of saving; no step can be read in it. Options take N as the step"
WRITERS = {"": "", "dcp": "PyTorch (DCP)"}
"""Writers of a checkpoint; a checkpoint in the agent's own form was written by a run."""


@json_object
class StoredCheckpoint:
    """One step of a store."""

    step: int
    folder: str
    format: str | None
    # Whether it can be restored, and why not.
    whole: bool
    reason: str | None
    files: int
    bytes: int
    run: str | None
    attempt: int | None
    written_at: str | None
    layout: str | None
    unit: str
    superseded: bool
    withdrawn: bool
    main: str
    mains: tuple[str, ...]
    others: tuple[str, ...]
    # Whether its step is a count of saves, because nothing tells the trainer's step.
    counted: bool
    # The files whose objects S3 got after the commit.
    rewritten: tuple[str, ...]


@json_object
class CheckpointsDocument:
    """The contents of a store."""

    schema: Literal["slipway.checkpoints/1"] = "slipway.checkpoints/1"
    name: str
    uri: str
    checkpoints: tuple[StoredCheckpoint, ...]


def document(name: str, uri: str, stored: tuple[Checkpoint, ...]) -> Json:
    """slipway.checkpoints/1."""
    checkpoints = tuple(
        fill_record(
            StoredCheckpoint,
            checkpoint,
            format=checkpoint.form,
            whole=checkpoint.complete,
            files=len(checkpoint.files),
        )
        for checkpoint in stored
    )
    return as_json(CheckpointsDocument(name=name, uri=uri, checkpoints=checkpoints))


@json_object
class VerifiedCheckpoint:
    """One verified step; `by` names the check."""

    step: int
    whole: bool
    by: Literal["hashes", "sizes"]
    files: int
    problems: tuple[str, ...]


@json_object
class VerifyDocument:
    """The verified steps of a store."""

    schema: Literal["slipway.checkpoints-verify/1"] = "slipway.checkpoints-verify/1"
    name: str
    uri: str
    checkpoints: tuple[VerifiedCheckpoint, ...]


def verify_document(name: str, uri: str, read: Iterable[tuple[Checkpoint, Sequence[str]]]) -> Json:
    """slipway.checkpoints-verify/1."""
    checkpoints = tuple(
        VerifiedCheckpoint(
            step=checkpoint.step,
            whole=not wrong,
            by="hashes" if checkpoint.form == "agent" else "sizes",
            files=len(checkpoint.files),
            problems=tuple(wrong),
        )
        for checkpoint, wrong in read
    )
    return as_json(VerifyDocument(name=name, uri=uri, checkpoints=checkpoints))


def verified_lines(checkpoint: Checkpoint, wrong: Sequence[str]) -> list[str]:
    """One verified checkpoint, and its problems."""
    hashes = "hashes" if checkpoint.form == "agent" else "sizes; PyTorch keeps no hashes"
    state = "incomplete" if wrong else f"complete, {number_of(len(checkpoint.files), 'file')}, by {hashes}"
    return [f"  {_place(checkpoint)}: {state}", *(f"    {line}" for line in wrong)]


@json_object
class PruneDocument:
    """The deleted steps of a store; `done` is false if nothing was deleted."""

    schema: Literal["slipway.checkpoints-prune/1"] = "slipway.checkpoints-prune/1"
    name: str
    uri: str
    done: bool
    steps: tuple[int, ...]
    objects: int
    bytes: int


def prune_document(name: str, uri: str, steps: Sequence[int], sizes: Mapping[str, int], *, done: bool) -> Json:
    """slipway.checkpoints-prune/1."""
    size = sum(sizes.values())
    return as_json(PruneDocument(name=name, uri=uri, done=done, steps=tuple(steps), objects=len(sizes), bytes=size))


@json_object
class RestoreDocument:
    """The location of a restored checkpoint."""

    schema: Literal["slipway.checkpoints-restore/1"] = "slipway.checkpoints-restore/1"
    name: str
    uri: str
    step: int
    folder: str
    files: int
    bytes: int


def restore_document(name: str, uri: str, step: int, folder: Path, files: Sequence[StoredFile]) -> Json:
    """slipway.checkpoints-restore/1."""
    size = sum(file.bytes for file in files)
    return as_json(RestoreDocument(name=name, uri=uri, step=step, folder=str(folder), files=len(files), bytes=size))


def _place(checkpoint: Checkpoint) -> str:
    return place_text(checkpoint.step, counted=checkpoint.counted)


def _state(checkpoint: Checkpoint) -> str:
    return "withdrawn" if checkpoint.withdrawn else "yes" if checkpoint.complete else "no"


def _writer(checkpoint: Checkpoint) -> str:
    """The writer of a checkpoint: for a run, its start and digest (the plan's name is the same in every row)."""
    return WRITERS.get(checkpoint.form or "", "-".join((checkpoint.run or "").rsplit("-", 2)[-2:]))


def page(uri: str, checkpoints: tuple[Checkpoint, ...], width: int) -> list[str]:
    """The steps, newest first; if more than a few expire, these are one line."""
    lines = ["", *fold(f"  {uri}", width), ""]
    if not checkpoints:
        return [*lines, "  no checkpoint yet"]
    columns: list[Column[Checkpoint]] = [
        Column("step", lambda checkpoint: _place(checkpoint).removeprefix("step "), "right"),
        Column("complete", _state),
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
            lines += fold(f"  {_place(checkpoint)}: {checkpoint.reason}", width)
            continue
        if checkpoint.rewritten:
            what = first_of(checkpoint.rewritten)
            lines += fold(f"  {_place(checkpoint)}: {what}: S3 got this object after the commit; {_READ_IT}", width)
        if checkpoint.main:
            others = ", ".join(checkpoint.others)
            mains = ", ".join(checkpoint.mains or (checkpoint.main,))
            lines += fold(f"  {_place(checkpoint)}: {mains}, in one set with {others}", width)
    lines += fold(f"  complete: {_COMPLETE}", width)
    if any(checkpoint.counted for checkpoint in shown):
        lines += fold(f"  save N: {_COUNTED}", width)
    if any(checkpoint.withdrawn for checkpoint in shown):
        lines += fold(f"  withdrawn: {_WITHDRAWN}", width)
    if folded:
        size = size_text(sum(checkpoint.bytes for checkpoint in expiring))
        about = f"steps {expiring[-1].step} to {expiring[0].step}, {size}"
        lines += [
            "",
            *fold(f"  {number_of(len(expiring), 'more checkpoint')}, expiring ({about}): --json lists them", width),
        ]
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
