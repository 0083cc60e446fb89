"""`slipway quote`: one candidate, every line of its bill."""

from dataclasses import replace

import typer

from launcher.cli import options, output
from launcher.cli.table import terminal_width


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("quote")(quote)


def quote(
    file: options.PlanPath,
    *,
    wanted: options.Pick = None,
    json: options.Json = False,
    everything: options.Everything = False,
    region: options.Region = None,
    prices_as_of: options.PricesAsOf = None,
    max_price_age: options.MaxPriceAge = None,
    max_usd: options.MaxUsd = None,
    html: options.Html = None,
    show: options.Open = False,
) -> None:
    """One candidate: lines by group, assumptions, safety policies, and what the gate says."""
    from launcher.cli.quote_page import page
    from launcher.pricing.gate import IMPOSSIBLE
    from launcher.records.documents import quote_document
    from launcher.workflow.quote.price import pick, price

    asked = options.price_options(
        region=region,
        everything=everything,
        prices_as_of=prices_as_of,
        max_price_age=max_price_age,
        max_usd=max_usd,
    )
    priced = price(file, options.now(), asked)
    rank, alone = pick(priced, wanted)
    quoted = replace(alone, findings=(*priced.findings, *alone.findings))
    target = options.page_path(html, priced.request.name, "quote", show=show)
    if target is not None:
        from launcher.cli.html import page as html_page
        from launcher.cli.html import quote as quote_html
        from launcher.workflow.quote.spot_curve import spot_curve

        html_page.save(target, quote_html.page(quoted, spot_curve(priced, quoted, asked)), show=show)
    elif json:
        output.document(quote_document(quoted, rank, priced.catalog.instance_types))
    else:
        output.page(page(quoted, rank, terminal_width(), priced.now.date(), str(file)))
    if quoted.gate.exit_code == IMPOSSIBLE:
        raise typer.Exit(code=IMPOSSIBLE)
