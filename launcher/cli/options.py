"""The arguments and flags that commands share."""

import os
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Annotated

import typer

from launcher.records.cache_folder import cache_folder


def _day(text: str) -> date:
    """A day from the command line."""
    try:
        day = date.fromisoformat(text)
    except ValueError as problem:
        raise typer.BadParameter("a day such as 2026-07-20") from problem
    today = datetime.now(UTC).date()
    if day > today:
        raise typer.BadParameter(f"a day that has been: {day} is after today, {today}")
    return day


def _dollars(text: str) -> Decimal:
    """Dollars from the command line."""
    try:
        amount = Decimal(text)
    except InvalidOperation as problem:
        raise typer.BadParameter("dollars such as 120 or 18.50") from problem
    if not amount.is_finite() or amount < 0:
        raise typer.BadParameter("dollars, 0 or more")
    return amount


PlanPath = Annotated[Path, typer.Argument(metavar="FILE", help="The plan file.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Region = Annotated[str | None, typer.Option("--region", help="Replaces target.region.")]
Everything = Annotated[bool, typer.Option("--all", help="Every candidate, not only the best of each type and option.")]
Pick = Annotated[
    str | None, typer.Option("--pick", metavar="RANK|DIGEST", help="Which candidate; the cheapest without.")
]
PricesAsOf = Annotated[
    date | None, typer.Option("--prices-as-of", parser=_day, metavar="DATE", help="Price with what was known then.")
]
MaxPriceAge = Annotated[
    int | None, typer.Option("--max-price-age", min=0, metavar="DAYS", help="Replaces the allowed age of prices.")
]
MaxUsd = Annotated[
    Decimal | None, typer.Option("--max-usd", parser=_dollars, metavar="X", help="Lowers the budget for this command.")
]
Explain = Annotated[
    int | None, typer.Option("--explain", min=1, metavar="RANK", help="Every number of a row, step by step.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
DespiteVerdict = Annotated[
    bool,
    typer.Option(
        "--despite-verdict",
        help="Deploy an endpoint although slipway compare says not to; training plans have no such gate.",
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done and do nothing.")]
InSandbox = Annotated[bool, typer.Option("--sandbox", help="Use an embedded AWS on this machine.")]


def price_cache() -> Path:
    """Where `slipway prices refresh` keeps what it read."""
    return cache_folder(os.environ)


def now() -> datetime:
    """The moment of this command, UTC, to the second."""
    return datetime.now(UTC).replace(microsecond=0)
