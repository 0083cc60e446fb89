"""`slipway schema`: the JSON Schema of a plan file, for editors, or of a command's --json output."""

from typing import Annotated

import typer

from launcher.cli import output
from launcher.model.errors import UnreadableInputError
from launcher.model.schema import json_schema


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("schema")(schema)


def schema(
    document: Annotated[
        str | None,
        typer.Argument(
            metavar="DOCUMENT", help="A document of --json: plan, quote, report, status ... Default: the plan file."
        ),
    ] = None,
) -> None:
    """Print the JSON Schema of a plan file, or of a document that commands print with --json."""
    if document is None:
        output.document(json_schema())
        return
    from launcher.answers.json_schemas import DOCUMENTS, schema_of

    if document not in DOCUMENTS:
        raise UnreadableInputError(f"unknown document {document!r}", hint=f"one of: {', '.join(DOCUMENTS)}")
    output.document(schema_of(document))
