"""The page of `slipway outputs`."""

from pathlib import Path
from typing import Literal

from launcher.agent.manifest import StoredFile
from launcher.agent.output_manifest import OutputManifest
from launcher.answers.checkpoints import size_text
from launcher.answers.table import Column, render
from launcher.model.units import number_of
from launcher.records.codec import Json, as_json
from launcher.records.document import fill_record, json_object


@json_object
class OutputFile:
    """One stored file."""

    path: str
    bytes: int
    sha256: str


@json_object
class OutputsDocument:
    """The stored outputs of a run; `to` is the folder to which they were brought."""

    schema: Literal["slipway.outputs/1"] = "slipway.outputs/1"
    name: str
    uri: str
    run: str
    attempt: int
    written_at: str
    to: str | None
    files: tuple[OutputFile, ...]


def document(name: str, uri: str, outputs: OutputManifest, target: Path | None) -> Json:
    """slipway.outputs/1."""
    files = tuple(fill_record(OutputFile, file) for file in outputs.files)
    place = None if target is None else str(target)
    return as_json(fill_record(OutputsDocument, outputs, name=name, uri=uri, to=place, files=files))


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
    return f"{number_of(len(outputs.files), 'file')}, {size}, of run {outputs.run}, attempt {outputs.attempt}"
