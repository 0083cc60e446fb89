"""`slipway capacity`: current offers of AWS for a plan."""

import typer

from launcher.cli import options, output, places


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("capacity")(options.with_settings(capacity))


def capacity(
    file: options.PlanPath,
    *,
    json: options.Json = False,
    everything: options.Everything = False,
    region: options.Region = None,
    sandbox: options.AttachSandbox = False,
) -> None:
    """List available Capacity Blocks, training plans, reservations and spot, with the total to finish on each.

    Prints the command that buys each offer. Buys nothing.
    """
    from launcher.answers.capacity import document, page
    from launcher.workflow.doctor.offers import capacity as story

    price_options = options.price_options(region=region, any_age=True)
    offers = story(
        file, options.now(), price_options, environment=places.environment(sandbox=sandbox), notify=output.talking()
    )
    if json:
        output.document(document(offers))
    else:
        output.page(page(offers, output.terminal_width(), everything=everything))
