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
        str | None, typer.Option("--region", help="List only this region.", autocompletion=completion.regions)
    ] = None,
    sandbox: options.AttachSandbox = False,
) -> None:
    """List every Slipway stack in the account: owner, start, dollars per hour, dollars so far, and end.

    Each cluster's guard counts its nodes every 5 minutes; Slipway prices the nodes at the rate of the cluster's quote.
    """
    from launcher.answers import cost as answer
    from launcher.aws.clients import Sessions
    from launcher.catalog.load import load
    from launcher.workflow.doctor.running_costs import survey

    now = options.now()
    catalog = load(overlay=options.price_cache(), today=now.date())
    found = survey(Sessions(options.environment(sandbox=sandbox)), catalog, now, only=region, sandbox=sandbox)
    output.answer(answer, found, json=json)
