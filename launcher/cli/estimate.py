"""`slipway estimate`: the cost of any synthesised CloudFormation app."""

from decimal import Decimal
from pathlib import Path
from typing import Annotated

import typer

from launcher.cli import completion, options, output
from launcher.cli.option_values import Form, dollars, region_name

StackRegion = Annotated[
    str | None,
    typer.Option(
        "--region",
        parser=region_name,
        metavar="REGION",
        help="The region of stacks that name none.",
        autocompletion=completion.regions,
    ),
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("estimate")(estimate)


def _parameter(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise typer.BadParameter(f"expected NAME=VALUE, got {text!r}")
    return name, value


def estimate(
    path: Annotated[
        Path, typer.Argument(metavar="PATH", help="cdk.out, a folder that contains it, or a template (JSON, YAML).")
    ] = Path("cdk.out"),
    *,
    json: options.Json = False,
    max_usd_per_hour: Annotated[
        Decimal | None,
        typer.Option(
            "--max-usd-per-hour",
            parser=dollars,
            metavar="X",
            help="Exit 3 above this rate with all groups at their maximum, 4 if accelerators have no price.",
        ),
    ] = None,
    region: StackRegion = None,
    parameters: Annotated[
        list[str] | None,
        typer.Option("--parameter", metavar="NAME=VALUE", help="A value of a template parameter; repeatable."),
    ] = None,
    explained: Annotated[
        bool, typer.Option("--explain", help="Show every line, with source and date of its price.")
    ] = False,
    form: options.Format = Form.TABLE,
    prices_as_of: options.PricesAsOf = None,
) -> None:
    """Price the accelerators, storage and network of any CloudFormation app (cdk.out) per hour and month.

    Makes no AWS call; spends nothing. What has no price is named.
    """
    from launcher.answers import estimate as answer
    from launcher.answers.diff import NO_LINK
    from launcher.catalog.load import load
    from launcher.workflow.quote.estimate import estimate_path, refusal_of

    values = dict(map(_parameter, parameters or ()))
    now = options.now()
    catalog = load(prices_as_of=prices_as_of, overlay=options.price_cache(), today=now.date())
    with output.comment_of_failure(answer.MARK, wanted=form is Form.GITHUB_COMMENT and not json):
        found = estimate_path(path, catalog, now, region=region, parameters=values)
    refused = refusal_of(found, max_usd_per_hour)
    reason = refused.message if refused is not None else None
    if json:
        output.document(answer.document(found, max_usd_per_hour, reason))
    elif form is Form.GITHUB_COMMENT:
        output.result(answer.comment(found, reason), keep=NO_LINK)
    else:
        output.page(answer.page(found, reason, output.terminal_width(), explained=explained))
    if refused is not None:
        raise typer.Exit(code=refused.exit_code)
