"""The arguments and flags that commands share."""

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast

import typer

from launcher.cli import completion
from launcher.model.errors import ImpossibleError, UnreadableInputError
from launcher.model.names import nearest_name
from launcher.records.cache_folder import cache_folder

if TYPE_CHECKING:
    from launcher.workflow.history.run_index import Place
    from launcher.workflow.quote.options import PriceOptions


def calendar_day(text: str) -> date:
    """A day from the command line, past or to come."""
    try:
        return date.fromisoformat(text)
    except ValueError as problem:
        raise typer.BadParameter(f"expected a date such as 2026-07-20, got {text!r}") from problem


def day(text: str) -> date:
    """A day from the command line that has been."""
    parsed = calendar_day(text)
    today = datetime.now(UTC).date()
    if parsed > today:
        raise typer.BadParameter(f"expected a past date: {parsed} is after today, {today}")
    return parsed


def dollars(text: str) -> Decimal:
    """Dollars from the command line."""
    try:
        amount = Decimal(text)
    except InvalidOperation as problem:
        raise typer.BadParameter(f"expected dollars such as 120 or 18.50, got {text!r}") from problem
    if not amount.is_finite() or amount < 0:
        raise typer.BadParameter(f"expected 0 dollars or more, got {text!r}")
    return amount


def region_name(text: str) -> str:
    """A region from the command line: one of the catalog, or another that AWS has."""
    known = completion.regions("")
    if text in known:
        return text
    from launcher.aws.regions import region_names

    if text in region_names():
        return text
    raise typer.BadParameter(f"no region {text!r}; {nearest_name(text, known) or 'expected a code such as us-east-1'}")


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
        help="Choose a candidate by its id, or its rank. Default: the cheapest that can be launched.",
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
Live = Annotated[
    bool, typer.Option("--live", help="Read the current offers from AWS: blocks, training plans, reservations.")
]
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
InSandbox = Annotated[bool, typer.Option("--sandbox", help="Use an emulated AWS on this computer.")]


class Form(StrEnum):
    """How a cost for a pull request is printed."""

    TABLE = "table"
    GITHUB_COMMENT = "github-comment"


def _form(text: str) -> Form:
    try:
        return Form(text)
    except ValueError as problem:
        raise typer.BadParameter(f"{text!r} is not allowed; choose from {', '.join(Form)}") from problem


Format = Annotated[
    Form, typer.Option("--format", parser=_form, metavar="table|github-comment", help="The output format.")
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

    return _declare_options(run, command, offered, flags=("spot",))


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


Store = Annotated[
    str | None,
    typer.Option("--store", metavar="S3_URI", help="Find a run of any computer, in this store (s3://BUCKET)."),
]
PLACE: ContextVar[Any] = ContextVar("place", default=None)
"""The place of this command's run (workflow.history.run_index.Place) with its sandbox flag; None: this computer."""
PLACE_OPTIONS: Mapping[str, Any] = {
    "place_region": Annotated[
        str | None,
        typer.Option(
            "--region",
            parser=region_name,
            metavar="REGION",
            help="Find a run of any computer, by the Slipway stacks of this region.",
            autocompletion=completion.regions,
        ),
    ],
    "place_store": Store,
    "place_sandbox": AttachSandbox,
}
"""The options that `with_place` adds, by the names of their parameters."""


def with_place(command: Command) -> Command:
    """The command with --region and --store, by which `plan_name` finds the runs of other computers."""

    @wraps(command)
    def run(**arguments: Any) -> None:
        region, store, sandbox = (arguments.pop(name, None) for name in PLACE_OPTIONS)
        PLACE.set((region, store, bool(sandbox)) if region or store else None)
        command(**arguments)

    return _declare_options(run, command, PLACE_OPTIONS, flags=("place_sandbox",))


def use_store(store: str | None, region: str | None, *, sandbox: bool) -> None:
    """Let `plan_name` find the runs of a store, for a command with a --region of its own; nothing without --store."""
    if store is not None:
        PLACE.set((region, store, sandbox))


def _declare_options(run: Any, command: Command, offered: Mapping[str, Any], flags: Sequence[str]) -> Command:
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


def fetched_runs(name: str) -> Path | None:
    """The folder of a plan's runs that --region or --store found on other computers; None without these options."""
    if PLACE.get() is None:
        return None
    from launcher.cli import output
    from launcher.records.run_folder import FETCHED
    from launcher.workflow.history.run_index import fetch

    root = fetch(name, *_index(), output.say)
    FETCHED.set(root)
    return root


def fetched_stores() -> Mapping[str, Path] | None:
    """The folders of all runs that --region or --store found, by their store; None without these options."""
    if PLACE.get() is None:
        return None
    from launcher.workflow.history.run_index import fetch_all

    return fetch_all(*_index())


def _index() -> "tuple[Place, dict[str, str]]":
    """Where --region or --store look, and the environment of the calls."""
    from launcher.workflow.history.run_index import Place

    region, store, sandbox = PLACE.get() or (None, None, False)
    return Place(region=region, store=store), environment(sandbox=sandbox)


def environment(*, sandbox: bool) -> dict[str, str]:
    """The environment of a command's AWS calls: this process's, or that of the running sandbox.

    Raises:
        ImpossibleError: no sandbox runs.
    """
    if not sandbox:
        return dict(os.environ)
    from launcher.emulation import find_sandbox

    running = find_sandbox(os.environ, region_of(os.environ))
    if running is None:
        from launcher.emulation import all_running, used_in

        names = [sandbox.name for sandbox in all_running(os.environ)]
        hint = "; ".join(
            ["slipway sandbox start", *(f"slipway sandbox start --name {name} uses {name}" for name in names)]
        )
        raise ImpossibleError(f"no sandbox is running for this folder ({used_in(Path.cwd())})", hint=hint)
    return running.process_environment(os.environ)


def environment_of(name: str, *, sandbox: bool, region: str | None) -> dict[str, str]:
    """The environment of a command about a plan's newest run: the account's or the sandbox's.

    Args:
        name: the plan's name.
        sandbox: whether --sandbox was given: use the running sandbox, whatever the newest run used.
        region: the value of --region: without --sandbox, use the account in this region, whatever the newest run used.

    Raises:
        ImpossibleError: no sandbox is running.
    """
    if sandbox or region is not None:
        return environment(sandbox=sandbox)
    from launcher.submit.jobs import SchedulerEndedError
    from launcher.workflow.cluster.reach import SandboxOutOfReachError, environment_of_newest

    try:
        return dict(environment_of_newest(name, Path.cwd(), os.environ))
    except SandboxOutOfReachError as problem:
        raise ImpossibleError(problem.message, hint=problem.hint) from problem
    except SchedulerEndedError as problem:
        hint = (
            f"slipway report {name} shows what the run left; slipway sandbox start begins one that stays after a"
            " launch; --region uses your account instead"
        )
        raise ImpossibleError(problem.message, hint=hint) from problem


def region_of(environment: Mapping[str, str]) -> str:
    """The region that an environment names, us-east-1 without."""
    return environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or "us-east-1"


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


def plan_name(text: str, region: str | None = None) -> str:
    """The name of a plan that was named, or whose file was.

    Args:
        text: a name or a file.
        region: the region whose stacks the command reads by the name: it needs no run, so none is found.

    Raises:
        UnreadableInputError: it is a file that cannot be read as a plan.
    """
    from launcher import plan_file
    from launcher.cli import output

    name = plan_file.load(Path(text)).name if plan_file.is_path(text) else text
    output.SUBJECT.set(name)
    if fetched_runs(name) is None and region is None:
        _say_where(name)
    return name


def _say_where(name: str) -> None:
    """Say which folder a run is of, if it is not of this one."""
    from launcher.cli import output
    from launcher.records.recent_runs import FOUND, state_folder
    from launcher.records.run_folder import home_of

    here = Path.cwd()
    home = home_of(name, here)
    if home.is_relative_to((state_folder(os.environ) / FOUND).resolve()):
        newer = f"slipway status {name} --region REGION looks for a newer one"
        output.say(f"  {name}: the run that --region or --store found last; {newer}")
    elif home != here:
        output.say(f"  {name} was launched in {home}")


def page_path(html: Path | None, name: str, kind: str, *, show: bool) -> Path | None:
    """The path of the HTML page: the value of --html, or below .slipway for --open alone; None without both."""
    return html if html is not None or not show else Path(".slipway") / "pages" / f"{name}-{kind}.html"
