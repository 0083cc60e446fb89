"""`slipway compare`: one job on every accelerator, GPU against Trainium including the port, and a verdict."""

from typing import Annotated

import typer

from launcher.cli import options, output


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("compare")(options.with_settings(compare))


def compare(
    file: options.PlanPath,
    *,
    json: options.Json = False,
    region: options.Region = None,
    prices_as_of: options.PricesAsOf = None,
    max_price_age: options.MaxPriceAge = None,
    despite_verdict: Annotated[
        bool,
        typer.Option("--despite-verdict", help="Recommend a port to software without support too, if it is cheaper."),
    ] = False,
    live: options.Live = False,
    html: options.Html = None,
    show: options.Open = False,
) -> None:
    """Compare all options of one job, and GPU with Trainium including the port. Makes no AWS call; spends nothing.

    A side that is cheaper with a chance of 30 to 70 % is too close to call, for training and for endpoints. With --live
    and credentials, current offers of AWS are compared too; nothing is bought.
    """
    from launcher.answers.compare import page
    from launcher.workflow.quote import compare as story

    price_options = options.price_options(
        region=region,
        prices_as_of=prices_as_of,
        max_price_age=max_price_age,
        despite_verdict=despite_verdict,
    )
    comparison = story.compare(file, options.now(), price_options)
    if live:
        import os

        from launcher.workflow.doctor.live_offers import compared_live

        comparison = compared_live(comparison, price_options, environment=dict(os.environ), notify=output.talking())
    target = options.page_path(html, comparison.request.name, "compare", show=show)
    if target is not None:
        from launcher.answers.html import compare as compare_html
        from launcher.workflow.quote.traffic_curves import traffic_curves

        curves = () if isinstance(comparison, story.Comparison) else traffic_curves(comparison, price_options)
        output.save_html(target, compare_html.page(comparison, curves), show=show)
    if json:
        from launcher.answers.compare_document import document

        output.document(document(comparison))
    elif target is not None:
        return
    elif isinstance(comparison, story.Comparison):
        output.page(page(comparison, output.terminal_width(), called=live, verbose=output.verbose()))
    else:
        from launcher.answers import serving_compare

        output.page(serving_compare.page(comparison, output.terminal_width(), verbose=output.verbose()))
