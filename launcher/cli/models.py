"""`slipway models`: the models that a plan can name."""

from typing import Annotated

import typer

from launcher.cli import options, output
from launcher.model.errors import UnreadableInputError


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("models")(models)


def models(
    name: Annotated[str | None, typer.Argument(help="A model's name, or a part of names.")] = None,
    *,
    json: options.Json = False,
) -> None:
    """List the models that a plan can name, or show one: dimensions, context, source."""
    from launcher.answers.models import document, page, table
    from launcher.catalog.load import load
    from launcher.model.names import nearest_model
    from launcher.planning.checks import OTHER_MODEL

    catalog = load()
    one = catalog.find_model(name) if name else None
    every = sorted(catalog.models.values(), key=lambda model: model.name)
    word = (name or "").strip().lower()
    chosen = (
        [one]
        if one is not None
        else [model for model in every if any(word in known.lower() for known in (model.name, *model.aliases))]
    )
    if not chosen:
        near = nearest_model(word, catalog.models)
        raise UnreadableInputError(
            f"no model {name} in the catalog", hint=f"{near} Else {OTHER_MODEL}" if near else OTHER_MODEL
        )
    if json:
        output.document(document(chosen))
    elif one is not None:
        output.result(["", *page(one, output.terminal_width()), ""])
    else:
        output.result(table(chosen, output.terminal_width()))
