"""The arguments and flags that commands share, and what follows from them."""

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast

import typer

from launcher.cli import completion
from launcher.cli.option_values import Form, cost_form, day, dollars, region_name
from launcher.model.errors import UnreadableInputError
from launcher.records.cache_folder import cache_folder

if TYPE_CHECKING:
    from launcher.workflow.quote.options import PriceOptions


RunName = Annotated[
    str,
    typer.Argument(metavar="NAME|FILE", help="The plan's name, or its file.", autocompletion=completion.runs_and_files),
]
PlanPath = Annotated[Path, typer.Argument(metavar="FILE", help="The plan file.", autocompletion=completion.plan_files)]
Node = Annotated[
    str | None, typer.Option("--node", metavar="N", help="The node's number in the job, from 0, or its name.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Region = Annotated[
    str | None,
    typer.Option(
        "--region",
        parser=region_name,
        metavar="REGION",
        help="Override target.region.",
        autocompletion=completion.regions,
    ),
]
Everything = Annotated[
    bool, typer.Option("--all", help="Show every candidate, not only the best of each type and option.")
]
Pick = Annotated[
    str | None,
    typer.Option(
        "--pick",
        metavar="ID",
        help="Choose a candidate by its id, or its rank in plan --json. Default: the cheapest that can be launched.",
        autocompletion=completion.ranks,
    ),
]
PricesAsOf = Annotated[
    date | None, typer.Option("--prices-as-of", parser=day, metavar="DATE", help="Use the prices known on this day.")
]
MaxPriceAge = Annotated[
    int | None, typer.Option("--max-price-age", min=0, metavar="DAYS", help="Override the allowed age of prices.")
]
MaxUsd = Annotated[
    Decimal | None, typer.Option("--max-usd", parser=dollars, metavar="X", help="Lower the budget for this command.")
]
Explain = Annotated[
    str | None, typer.Option("--explain", metavar="ID", help="Show how each number of a row is computed.")
]
Explained = Annotated[bool, typer.Option("--explain", help="Show every line and every assumption, with its source.")]
Sweep = Annotated[
    list[str] | None,
    typer.Option(
        "--sweep",
        metavar="KEY=V,V",
        help="Price the plan at each value of a key; repeatable.",
        autocompletion=completion.swept_keys,
    ),
]
Live = Annotated[bool, typer.Option("--live", help="Read current offers and quotas from AWS.")]
Html = Annotated[
    Path | None, typer.Option("--html", metavar="FILE", help="Write an HTML page that loads nothing from the network.")
]
Open = Annotated[bool, typer.Option("--open", help="Open the HTML page in a browser; works without --html too.")]
ApprovalId = Annotated[
    str | None,
    typer.Option("--approval", metavar="ID", help="Use a person's approval (slipway approve) in place of --yes."),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Answer yes to every question.")]
DespiteVerdict = Annotated[
    bool,
    typer.Option(
        "--despite-verdict",
        help="Deploy an endpoint against the verdict of slipway compare FILE (serving plans only).",
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would change, and change nothing.")]
AttachSandbox = Annotated[
    bool, typer.Option("--sandbox", help="Use the running sandbox (slipway sandbox start) instead of AWS.")
]
Store = Annotated[
    str | None,
    typer.Option("--store", metavar="S3_URI", help="Find a run of any computer, in this store (s3://BUCKET)."),
]
InSandbox = Annotated[bool, typer.Option("--sandbox", help="Use an emulated AWS on this computer.")]
Format = Annotated[
    Form, typer.Option("--format", parser=cost_form, metavar="table|github-comment", help="The output format.")
]
Command = TypeVar("Command", bound=Callable[..., None])
SETTINGS: ContextVar[tuple[str, ...]] = ContextVar("settings", default=())
"""The settings of this command over its plan file, each KEY=VALUE."""
SETTING_OPTIONS: Mapping[str, Any] = {
    "set_values": Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Set any key of the plan file, as target.nodes=2; repeatable.",
            autocompletion=completion.swept_keys,
        ),
    ],
    "node_count": Annotated[int | None, typer.Option("--nodes", min=1, metavar="N", help="--set target.nodes=N")],
    "type_name": Annotated[str | None, typer.Option("--type", metavar="TYPE", help="--set target.instance_type=TYPE")],
    "spot": Annotated[bool, typer.Option("--spot", help="--set purchase.option=spot")],
    "variables": Annotated[
        list[str] | None, typer.Option("--env", metavar="NAME=VALUE", help="--set run.env.NAME=VALUE; repeatable.")
    ],
}
"""The options that `with_settings` adds, by the names of their parameters."""


def with_settings(command: Command) -> Command:
    """The command with --set and its short forms, whose values `price_options` passes on."""
    return _with_options(command, SETTING_OPTIONS)


def with_set(command: Command) -> Command:
    """The command with --set alone: the short forms have another meaning there, or one for a single plan."""
    return _with_options(command, {"set_values": SETTING_OPTIONS["set_values"]})


def _with_options(command: Command, offered: Mapping[str, Any]) -> Command:
    @wraps(command)
    def run(**arguments: Any) -> None:
        chosen = dict.fromkeys(SETTING_OPTIONS) | {name: arguments.pop(name, None) for name in offered}
        SETTINGS.set(settings(**chosen))
        command(**arguments)

    return declare_options(run, command, offered, flags=("spot",))


def settings(
    set_values: Sequence[str] | None,
    node_count: int | None,
    type_name: str | None,
    spot: bool | None,
    variables: Sequence[str] | None,
) -> tuple[str, ...]:
    """The settings of --set and its short forms, each KEY=VALUE.

    Raises:
        UnreadableInputError: --env has no value.
    """
    for variable in variables or ():
        if "=" not in variable:
            raise UnreadableInputError(f"--env takes NAME=VALUE, got {variable!r}", hint="--env WANDB_MODE=offline")
    short = [f"target.nodes={node_count}"] if node_count is not None else []
    short += [f"target.instance_type={type_name}"] if type_name is not None else []
    short += ["purchase.option=spot"] if spot else []
    return (*(set_values or ()), *short, *(f"run.env.{variable}" for variable in variables or ()))


def declare_options(run: Any, command: Command, offered: Mapping[str, Any], flags: Sequence[str]) -> Command:
    """The function with the options of a command and those offered, as typer reads them."""
    signature = inspect.signature(command)
    extra = [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=False if name in flags else None
        )
        for name, kind in offered.items()
    ]
    named = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in signature.parameters.values()]
    run.__signature__ = signature.replace(parameters=[*named, *extra])
    run.__annotations__ = {**command.__annotations__, **offered}
    return cast("Command", run)


def price_cache() -> Path:
    """Where `slipway prices refresh` keeps what it read."""
    return cache_folder(os.environ)


def price_options(**chosen: Any) -> "PriceOptions":
    """Pricing options of commands in this folder, with the user's price cache; `chosen` are fields of PriceOptions."""
    from launcher.workflow.quote.options import PriceOptions

    return PriceOptions(cache=price_cache(), runs=Path.cwd(), settings=SETTINGS.get(), **chosen)


def now() -> datetime:
    """The moment of this command, UTC, to the second."""
    return datetime.now(UTC).replace(microsecond=0)


def page_path(html: Path | None, name: str, kind: str, *, show: bool) -> Path | None:
    """The path of the HTML page: the value of --html, or below .slipway for --open alone; None without both."""
    return html if html is not None or not show else Path(".slipway") / "pages" / f"{name}-{kind}.html"
