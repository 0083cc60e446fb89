"""`slipway compare`: one job on every machine, GPU against Trainium with the port in it, and a verdict."""

from pathlib import Path

import typer

from launcher.cli import options, output
from launcher.cli.compare_page import page
from launcher.cli.table import terminal_width
from launcher.records.comparison import compare_document
from launcher.workflow.quote.options import PriceOptions


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("compare")(compare)


def compare(
    file: options.PlanPath,
    *,
    json: options.Json = False,
    region: options.Region = None,
    prices_as_of: options.PricesAsOf = None,
    max_price_age: options.MaxPriceAge = None,
) -> None:
    """The option matrix of one job, and GPU against Trainium with the port. Calls nothing and spends nothing."""
    from launcher.workflow.quote import compare as story

    asked = PriceOptions(
        cache=options.price_cache(),
        runs=Path.cwd(),
        region=region,
        prices_as_of=prices_as_of,
        max_price_age=max_price_age,
    )
    found = story.compare(file, options.now(), asked)
    if not isinstance(found, story.Comparison):
        from launcher.cli import serving_compare

        if json:
            output.document(serving_compare.document(found))
        else:
            output.result(serving_compare.page(found, terminal_width()))
        return
    if json:
        output.document(
            compare_document(
                name=found.request.name,
                now=found.priced.now,
                verdict=found.verdict,
                quotes=found.priced.quotes,
                sides=(found.gpu, found.trainium),
                port=found.port,
                findings=found.findings,
                types=found.priced.catalog.instance_types,
            )
        )
    else:
        output.result(page(found, terminal_width()))
