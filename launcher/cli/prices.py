"""`slipway prices`: what prices are known, what changed, and fresh ones from AWS."""

import os
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Annotated

import typer

from launcher.cli import completion, options, output
from launcher.cli.option_values import calendar_day, region_name
from launcher.model.errors import UnreadableInputError

Type = Annotated[
    str | None,
    typer.Option(
        "--type",
        metavar="TYPE",
        help="Only this instance type, including its ml. prices.",
        autocompletion=completion.instance_types,
    ),
]
Place = Annotated[
    str | None,
    typer.Option(
        "--region",
        parser=region_name,
        metavar="REGION",
        help="Only this region.",
        autocompletion=completion.regions,
    ),
]
Kind = Annotated[
    str | None,
    typer.Option(
        "--option",
        metavar="KIND",
        help="Only this kind: on-demand, spot, reserved, bill-item ...",
        autocompletion=completion.price_kinds,
    ),
]
Every = Annotated[bool, typer.Option("--all", help="Show every row, not only the first rows of each kind.")]

ReadRegions = Annotated[
    list[str] | None,
    typer.Option(
        "--region",
        parser=region_name,
        metavar="REGION",
        help="Read only this region; repeatable.",
        autocompletion=completion.regions,
    ),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(
        help="Show the known prices, compare two days, read current prices from AWS.", no_args_is_help=True
    )
    group.command("show")(show)
    group.command("diff")(diff)
    group.command("refresh")(options.with_set(refresh))
    app.add_typer(group, name="prices")


def show(
    name: Annotated[
        str | None, typer.Argument(metavar="TYPE", help="The same as --type.", autocompletion=completion.instance_types)
    ] = None,
    *,
    instance_type: Type = None,
    region: Place = None,
    option: Kind = None,
    history: Annotated[bool, typer.Option("--history", help="Show older prices too, by date.")] = False,
    everything: Every = False,
    prices_as_of: options.PricesAsOf = None,
    json: options.Json = False,
) -> None:
    """List known prices with age, basis and source. Makes no AWS call; spends nothing."""
    from launcher.answers.prices import show_page
    from launcher.workflow.quote import prices

    price_filter = prices.PriceFilter(instance_type=instance_type or name, region=region, option=option)
    now = options.now()
    rows = prices.show(prices.known_catalog(os.environ, now, prices_as_of), price_filter, now, history=history)
    if json:
        from launcher.answers.prices_document import show_document

        output.document(show_document(now=now, prices_as_of=prices_as_of, rows=rows))
        return
    width = output.terminal_width()
    output.page(show_page(rows, price_filter, width, everything=everything, history=history, as_of=prices_as_of))
    output.say("", "  next: slipway prices refresh")


def diff(
    before: Annotated[
        date, typer.Argument(parser=calendar_day, metavar="BEFORE", help="A day, for example 2025-04-01.")
    ],
    after: Annotated[date, typer.Argument(parser=calendar_day, metavar="AFTER", help="A later day.")],
    *,
    instance_type: Type = None,
    region: Place = None,
    option: Kind = None,
    everything: Every = False,
    json: options.Json = False,
) -> None:
    """List price changes between two days: added, removed, changed. Makes no AWS call; spends nothing."""
    from launcher.answers.prices import diff_page
    from launcher.workflow.quote import prices

    price_filter = prices.PriceFilter(instance_type=instance_type, region=region, option=option)
    changes = prices.diff(prices.known_catalog(os.environ, options.now()), price_filter, before, after)
    if json:
        from launcher.answers.prices_document import diff_document

        output.document(diff_document(now=options.now(), before=before, after=after, changes=changes))
    else:
        output.page(diff_page(changes, price_filter, (before, after), output.terminal_width(), everything=everything))


def refresh(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE", help="Read only the prices that this plan file needs.", autocompletion=completion.plan_files
        ),
    ] = None,
    *,
    everything: Annotated[bool, typer.Option("--all", help="Read every price, in every region.")] = False,
    region: ReadRegions = None,
    snapshot: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="FILE|PLUGIN",
            help="Import a snapshot file, with FILE.sha256 next to it, or a plugin's prices.",
        ),
    ] = None,
    digest: Annotated[
        str | None, typer.Option("--sha256", metavar="DIGEST", help="The snapshot's SHA-256, in place of FILE.sha256.")
    ] = None,
    json: options.Json = False,
) -> None:
    """Read prices from AWS into your cache, beside the shipped ones. Changes nothing in AWS.

    With credentials it calls AWS's APIs; without them it reads the files that AWS publishes. With --from it calls
    nothing: it imports the prices of a snapshot file after it has verified the file's SHA-256.
    """
    from launcher.answers.prices_document import refresh_document
    from launcher.answers.refresh import refresh_page
    from launcher.workflow.quote import price_import
    from launcher.workflow.quote import refresh as story

    now, settings = options.now(), options.SETTINGS.get()
    _refuse_idle_options(file, region or (), snapshot, everything=everything)
    if snapshot is not None:
        report = price_import.take(snapshot, digest, os.environ, now)
    else:
        report = story.refresh_file(
            None if everything else file,
            region or (),
            environment=os.environ,
            now=now,
            notify=output.talking(),
            everywhere=everything,
            settings=settings,
        )
    if json:
        output.document(refresh_document(report, now))
    else:
        output.result(refresh_page(report, output.terminal_width()))
    if not report.complete:
        raise typer.Exit(1)


def _refuse_idle_options(file: Path | None, regions: Sequence[str], snapshot: Path | None, *, everything: bool) -> None:
    """Refuse options that would change nothing."""
    if options.SETTINGS.get() and (file is None or everything):
        raise UnreadableInputError("--set needs a plan file whose prices are read", hint="slipway prices refresh FILE")
    if snapshot is not None and (file is not None or everything or regions):
        raise UnreadableInputError(
            "--from reads every price of the snapshot", hint="leave out FILE, --all and --region"
        )
