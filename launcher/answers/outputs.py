"""The page of `slipway outputs`."""

from pathlib import Path

from launcher.agent.manifest import StoredFile
from launcher.agent.output_manifest import SCHEMA, OutputManifest
from launcher.answers.checkpoints import size_text
from launcher.answers.table import Column, render
from launcher.records.codec import Json, picked


def document(name: str, uri: str, outputs: OutputManifest, target: Path | None) -> Json:
    """slipway.outputs/1."""
    files = [picked(file, "path bytes sha256") for file in outputs.files]
    place = None if target is None else str(target)
    about = picked(outputs, "run attempt written_at")
    return {"schema": SCHEMA, "name": name, "uri": uri, **about, "to": place, "files": files}


def page(outputs: OutputManifest, width: int) -> list[str]:
    """Every file."""
    columns: list[Column[StoredFile]] = [
        Column("size", lambda stored_file: size_text(stored_file.bytes), "right"),
        Column("file", lambda stored_file: stored_file.path, shrinks=True),
    ]
    return ["", *render(columns, outputs.files, width), "", f"  {summary(outputs)}"]


def summary(outputs: OutputManifest) -> str:
    """The number and size of the outputs, and the run that wrote them."""
    size = size_text(sum(file.bytes for file in outputs.files))
    return f"{len(outputs.files):,} files, {size}, of run {outputs.run}, attempt {outputs.attempt}"
