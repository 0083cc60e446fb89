"""`slipway capacity`: what AWS has for a plan at this moment."""

from pathlib import Path

import typer

from launcher.cli import options, output
from launcher.cli.table import terminal_width


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("capacity")(capacity)


def capacity(
    file: options.PlanPath,
    *,
    json: options.Json = False,
    everything: options.Everything = False,
    region: options.Region = None,
    sandbox: options.AttachSandbox = False,
) -> None:
    """Capacity Blocks, training plans, reservations, spot: what can be had now, and the total to finish with each.

    It prints the command that buys one and buys nothing.
    """
    from launcher.cli.capacity_page import page
    from launcher.records.capacity_document import capacity_document
    from launcher.workflow.capacity.offers import capacity as story
    from launcher.workflow.quote.options import PriceOptions

    asked = PriceOptions(cache=options.price_cache(), runs=Path.cwd(), region=region, sandbox=True)
    found = story(file, options.now(), asked, environment=options.environment(sandbox=sandbox), say=output.talking())
    if json:
        output.document(capacity_document(found.priced.request.name, found.offers, found.unanswered))
    else:
        output.page(page(found, terminal_width(), everything=everything))
