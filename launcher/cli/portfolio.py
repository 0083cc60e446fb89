"""`slipway portfolio`: several plans together, each on its best option, and all of them on one chip."""

from pathlib import Path
from typing import Annotated

import typer

from launcher.cli import completion, options, output


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("portfolio")(options.with_set(portfolio))


def portfolio(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="The plan files.", autocompletion=completion.plan_files)
    ],
    *,
    json: options.Json = False,
    region: options.Region = None,
    prices_as_of: options.PricesAsOf = None,
    max_price_age: options.MaxPriceAge = None,
) -> None:
    """Show the best option for each of several plans and one monthly total. Makes no AWS call; spends nothing."""
    from launcher.answers import portfolio as answer
    from launcher.workflow.quote import portfolio as story

    price_options = options.price_options(
        region=region,
        prices_as_of=prices_as_of,
        max_price_age=max_price_age,
    )
    priced = story.portfolio(files, options.now(), price_options)
    output.answer(answer, priced, json=json)
