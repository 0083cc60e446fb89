"""`slipway cost`: what exists in the account and what it costs."""

from typing import Annotated

import typer

from launcher.cli import completion, options, output


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("cost")(cost)


def cost(
    *,
    json: options.Json = False,
    region: Annotated[
        str | None, typer.Option("--region", help="Look in one region alone.", autocompletion=completion.regions)
    ] = None,
    sandbox: options.AttachSandbox = False,
) -> None:
    """Every stack of Slipway's in the account: who, since when, dollars an hour now and so far, and when it ends.

    Nodes are counted by each cluster's guard every five minutes, and priced at the rate of its quote.
    """
    from launcher.answers import cost as answer
    from launcher.aws.clients import Sessions
    from launcher.catalog.load import load
    from launcher.workflow.doctor.running_costs import survey

    now = options.now()
    catalog = load(overlay=options.price_cache(), today=now.date())
    found = survey(Sessions(options.environment(sandbox=sandbox)), catalog, now, only=region, sandbox=sandbox)
    output.answer(answer, found, json=json)
