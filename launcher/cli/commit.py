"""`slipway commit`: the commitment that pays off for several plans."""

from pathlib import Path
from typing import Annotated

import typer

from launcher.cli import completion, options, output


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("commit")(options.with_set(commit))


def commit(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="The plan files.", autocompletion=completion.plan_files)
    ],
    *,
    json: options.Json = False,
    accept_derived: Annotated[
        bool, typer.Option("--accept-derived", help="Also accept derived rates, which AWS does not list.")
    ] = False,
    everything: options.Everything = False,
    region: options.Region = None,
    prices_as_of: options.PricesAsOf = None,
    max_price_age: options.MaxPriceAge = None,
) -> None:
    """Recommend Savings Plans and reservations for several plans, with savings and risks. Buys nothing.

    The recommendation covers the minimum that the plans use in every hour. Prints the commands.
    """
    from launcher.answers.commit import document, page
    from launcher.workflow.quote.commit import commit as story

    price_options = options.price_options(
        region=region,
        prices_as_of=prices_as_of,
        max_price_age=max_price_age,
    )
    commitments = story(files, options.now(), price_options, accept_derived=accept_derived)
    if json:
        output.document(document(commitments))
    else:
        output.page(page(commitments, output.terminal_width(), everything=everything))
