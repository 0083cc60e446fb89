"""The runs of a folder as JSON: `slipway runs`, slipway.runs/1."""

from collections.abc import Iterable
from typing import Literal

from launcher.records.codec import Json, as_json
from launcher.records.document import json_object


@json_object
class RecentRun:
    """A run: the name of its plan, its start, its state, and the folder from which it was launched."""

    name: str
    started: str
    status: str
    folder: str


@json_object
class RunsDocument:
    """Every run."""

    schema: Literal["slipway.runs/1"] = "slipway.runs/1"
    runs: tuple[RecentRun, ...]


def document(runs: Iterable[tuple[str, str, str, str]]) -> Json:
    """slipway.runs/1."""
    listed = tuple(RecentRun(name=name, started=at, status=status, folder=root) for name, at, status, root in runs)
    return as_json(RunsDocument(runs=listed))
