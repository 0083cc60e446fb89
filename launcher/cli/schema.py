"""`slipway schema`: the JSON Schema of a plan file, for editors."""

import typer

from launcher.cli import output
from launcher.model.schema import json_schema


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("schema")(schema)


def schema() -> None:
    """Print the JSON Schema of a plan file."""
    output.document(json_schema())
