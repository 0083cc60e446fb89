"""The archive of `slipway debug` as text and JSON."""

from pathlib import Path
from typing import Literal

from launcher.answers.lines import fold
from launcher.records.codec import Json, as_json
from launcher.records.document import json_object


@json_object
class MissingPart:
    """A part that the archive lacks, with the reason."""

    path: str
    reason: str


@json_object
class DebugDocument:
    """An archive that was written: its files, and what it lacks with the reason."""

    schema: Literal["slipway.debug/1"] = "slipway.debug/1"
    name: str
    path: Path
    bytes: int
    files: tuple[str, ...]
    missing: tuple[MissingPart, ...]


def document(written: DebugDocument) -> Json:
    """slipway.debug/1."""
    return as_json(written)


def page(written: DebugDocument, width: int) -> list[str]:
    """What the archive holds, folder by folder, and what it lacks."""
    folders: dict[str, int] = {}
    for file in written.files:
        folder = file.partition("/")[0] if "/" in file else "summary"
        folders[folder] = folders.get(folder, 0) + 1
    held = ", ".join(f"{folder} {count}" for folder, count in folders.items())
    size = f"{written.bytes / 1e6:,.1f} MB" if written.bytes >= 100_000 else f"{max(1, written.bytes // 1000):,} kB"  # noqa: PLR2004
    lines = ["", *fold(f"  {written.path}: {len(written.files)} files, {size}", width)]
    lines += fold(f"  files: {held}", width, 2)
    lines += [piece for part in written.missing for piece in fold(f"  without {part.path}: {part.reason}", width, 2)]
    lines += fold("  secrets, account numbers and e-mail addresses are masked; read it before you send it", width)
    return lines
