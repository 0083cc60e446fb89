"""`slipway commit`: the commitment that pays for several plans together."""

from pathlib import Path
from typing import Annotated

import typer

from launcher.cli import completion, options, output
from launcher.cli.table import terminal_width


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("commit")(commit)


def commit(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="The plan files.", autocompletion=completion.plan_files)
    ],
    *,
    json: options.Json = False,
    everything: options.Everything = False,
    region: options.Region = None,
    prices_as_of: options.PricesAsOf = None,
    max_price_age: options.MaxPriceAge = None,
) -> None:
    """Savings Plans and reservations for several plans: what to commit to, what it saves, what strands it.

    It looks at the floor of what the plans use in every hour, prints the commands, and buys nothing.
    """
    from launcher.cli.commit_page import page
    from launcher.records.commit_document import commit_document
    from launcher.workflow.quote.commit import commit as story
    from launcher.workflow.quote.options import PriceOptions

    asked = PriceOptions(
        cache=options.price_cache(),
        runs=Path.cwd(),
        region=region,
        prices_as_of=prices_as_of,
        max_price_age=max_price_age,
    )
    found = story(files, options.now(), asked)
    if json:
        output.document(commit_document(found))
    else:
        output.page(page(found, terminal_width(), everything=everything))
