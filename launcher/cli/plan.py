"""`slipway plan`: every way to buy the job, with the total dollars to finish."""

from pathlib import Path

import typer

from launcher.cli import options, output
from launcher.cli.plan_page import page
from launcher.cli.table import terminal_width
from launcher.pricing.gate import IMPOSSIBLE
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import price


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("plan")(plan)


def plan(
    file: options.PlanPath,
    *,
    json: options.Json = False,
    everything: options.Everything = False,
    explained: options.Explain = None,
    region: options.Region = None,
    prices_as_of: options.PricesAsOf = None,
    max_price_age: options.MaxPriceAge = None,
    max_usd: options.MaxUsd = None,
) -> None:
    """Total dollars to finish, for every way to buy the same job. Calls nothing and spends nothing."""
    asked = PriceOptions(
        cache=options.price_cache(),
        runs=Path.cwd(),
        region=region,
        everything=everything,
        prices_as_of=prices_as_of,
        max_price_age=max_price_age,
        max_usd=max_usd,
    )
    priced = price(file, options.now(), asked)
    if explained is not None:
        from launcher.cli import explain

        output.result(explain.page(priced, explained, terminal_width()))
    elif json:
        from launcher.records.documents import plan_document

        types, considered = priced.catalog.instance_types, priced.considered
        output.document(
            plan_document(
                name=priced.request.name,
                now=priced.now,
                considered=considered,
                quotes=priced.quotes,
                findings=priced.findings,
                types=types,
                next_command=priced.next_command,
                alternatives=priced.alternatives,
            )
        )
    else:
        output.result(page(priced, terminal_width(), everything=everything))
    if priced.impossible:
        raise typer.Exit(code=IMPOSSIBLE)
