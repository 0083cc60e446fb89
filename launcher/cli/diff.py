"""`slipway diff`: how a change of plan files changes their totals, for the terminal or a pull request."""

import math
import os
from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Annotated

import typer

from launcher.cli import completion, options, output
from launcher.cli.option_values import Form, day, dollars
from launcher.model.errors import OverBudgetError

Old = Annotated[
    str,
    typer.Argument(
        metavar="OLD",
        help="A plan file, a folder of plans, or a git revision.",
        autocompletion=completion.plan_files,
    ),
]
New = Annotated[
    str | None,
    typer.Argument(
        metavar="NEW", help="The same kinds as OLD. Default: this folder.", autocompletion=completion.plan_files
    ),
]


def _percent(text: str) -> float:
    try:
        value = float(text)
    except ValueError as problem:
        raise typer.BadParameter(f"expected a percentage such as 5, got {text!r}") from problem
    if not 0 <= value < math.inf:
        raise typer.BadParameter(f"expected a percentage of 0 or more, got {text!r}")
    return value


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("diff")(diff)


def diff(
    old: Old,
    new: New = None,
    *,
    json: options.Json = False,
    form: options.Format = Form.TABLE,
    policy: Annotated[Path | None, typer.Option("--policy", metavar="FILE", help="A file with a cost policy.")] = None,
    max_increase_usd: Annotated[
        Decimal | None,
        typer.Option("--max-increase-usd", parser=dollars, metavar="X", help="Exit 3 above this increase."),
    ] = None,
    max_increase_percent: Annotated[
        float | None,
        typer.Option("--max-increase-percent", parser=_percent, metavar="N", help="Exit 3 above this increase."),
    ] = None,
    region: options.Region = None,
    prices_as_of: options.PricesAsOf = None,
    old_prices_as_of: Annotated[
        date | None,
        typer.Option("--old-prices-as-of", parser=day, metavar="DATE", help="Price OLD as of this day."),
    ] = None,
) -> None:
    """Show how changed plans change totals, by plan and cost line, and why. Makes no AWS call; spends nothing.

    Both sides use today's prices, so that only changes of the plans count.
    """
    from launcher.answers import diff as diff_page
    from launcher.workflow.quote import diff as story
    from launcher.workflow.quote.diff_policy import policy_of
    from launcher.workflow.quote.options import PriceOptions

    price_options = PriceOptions(cache=options.price_cache(), region=region, prices_as_of=prices_as_of)
    with output.comment_of_failure(diff_page.MARK, wanted=form is Form.GITHUB_COMMENT and not json):
        limits = policy_of(policy, max_increase_usd, max_increase_percent)
        difference = story.diff(
            old,
            new,
            options.now(),
            price_options,
            old_options=replace(price_options, prices_as_of=old_prices_as_of or prices_as_of),
            folder=Path.cwd(),
            environment=os.environ,
        )
    refusal = limits.refusal(difference)
    if json:
        output.document(diff_page.document(difference, refusal))
    elif form is Form.GITHUB_COMMENT:
        output.result(diff_page.comment(difference, refusal), keep=diff_page.NO_LINK)
    else:
        output.page(diff_page.page(difference, refusal, output.terminal_width()))
    if refusal is not None:
        raise typer.Exit(code=OverBudgetError.exit_code)
