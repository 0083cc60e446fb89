"""The plan file that `slipway init` wrote: slipway.init/1."""

from pathlib import Path
from typing import Literal

from launcher.records.codec import Json, as_json
from launcher.records.document import json_object
from launcher.workflow.quote.imports.imported import Imported


@json_object
class InitDocument:
    """A plan file that was written; of another tool's file also what the plan cannot have, and what is assumed."""

    schema: Literal["slipway.init/1"] = "slipway.init/1"
    plan: str
    schema_file: str | None
    lost: tuple[str, ...]
    assumed: tuple[str, ...]
    next: str


def document(plan: Path, schema: Path | None, imported: Imported | None, following: str) -> Json:
    """slipway.init/1; `schema` is the file for editors, `following` the next command."""
    return as_json(
        InitDocument(
            plan=str(plan),
            schema_file=None if schema is None else str(schema),
            lost=() if imported is None else tuple(imported.lost),
            assumed=() if imported is None else tuple(imported.assumed),
            next=following,
        )
    )
