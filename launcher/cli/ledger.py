"""`slipway ledger`: what all runs were quoted at and what they cost."""

import gc
import os
import sys
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Annotated

import typer

from launcher.cli import options, output, places
from launcher.cli.option_values import day
from launcher.model.errors import UnreadableInputError
from launcher.model.ledger import Grouping, Ledger
from launcher.model.report import RunStatus
from launcher.model.units import number_of


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("ledger")(places.with_place(ledger))


def ledger(
    *,
    since: Annotated[
        date | None,
        typer.Option("--since", parser=day, metavar="DATE", help="Only runs that began on this day or later."),
    ] = None,
    by: Annotated[Grouping | None, typer.Option("--by", help="Group the totals.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Show every run, not only the newest.")] = False,
    json: options.Json = False,
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV, 1 line per run.")] = False,
    focus: Annotated[bool, typer.Option("--focus", help="Print CSV in the columns of FOCUS 1.0.")] = False,
    html: options.Html = None,
    show: options.Open = False,
) -> None:
    """List all runs of this folder or a shared bucket: dollars quoted, used, billed, and per million tokens.

    SLIPWAY_LEDGER=s3://BUCKET/PREFIX names a bucket that several people share. Every run writes its entry there when it
    ends; this command also sends missing entries of this folder. --region and --store list the runs of a job's store.
    """
    if json + csv + focus > 1:
        raise UnreadableInputError("--json, --csv and --focus exclude each other", hint="use one of them")
    if by is not None and (csv or focus):
        raise UnreadableInputError("--by does not work with --csv or --focus", hint="remove one")
    gc.disable()
    try:
        selection = _read_ledger()
    finally:
        # All that was made until here is kept: half the time of a long ledger went into looking for garbage in it.
        gc.freeze()
        gc.enable()
    selection = selection.once
    if since is not None:
        selection = selection.since(datetime.combine(since, time(), UTC))
    target = options.page_path(html, "runs", "ledger", show=show)
    if target is not None:
        from launcher.answers.html import ledger as ledger_html

        output.save_html(target, ledger_html.page(selection, by), show=show)
    if json:
        from launcher.answers.ledger import document

        output.document(document(selection, by))
    elif csv:
        _csv(selection)
    elif focus:
        from launcher.records.focus import focus_csv, has_rows

        sys.stdout.write(focus_csv(selection.entries))
        bare = sum(not has_rows(entry) for entry in selection.entries)
        if bare:
            output.say(f"without a row: {number_of(bare, 'run')} not ended, or with unknown dollars")
    elif target is None:
        from launcher.answers.ledger import page

        output.page(page(selection, output.terminal_width(), by=by, everything=everything))


def _read_ledger() -> Ledger:
    from launcher.workflow.history.ledger import merge_ledgers

    stores = places.fetched_stores()
    if stores is not None:
        return merge_ledgers({uri: _ledger_in(root, copied=True) for uri, root in stores.items()})
    local_ledger = _ledger_in(Path.cwd())
    if not os.environ.get("SLIPWAY_LEDGER"):
        return local_ledger
    from launcher.workflow.history.ledger_shared import shared_ledger, shared_place

    place = shared_place(os.environ)
    return (
        local_ledger
        if place is None
        else shared_ledger(place, os.environ, local_ledger, datetime.now(UTC), output.talking())
    )


def _ledger_in(root: Path, *, copied: bool = False) -> Ledger:
    """The ledger of a folder's runs, with what its running jobs have used until now."""
    from launcher.workflow.history.ledger import folder_ledger

    found = folder_ledger(root)
    if any(entry.status == RunStatus.RUNNING.value for entry in found.entries):
        from launcher.workflow.run.running_ledger import with_running

        found = with_running(found, root, options.now(), copied=copied)
    return found


def _csv(selection: Ledger) -> None:
    import csv

    from launcher.answers.ledger import rows
    from launcher.model.visible_text import csv_cell

    columns, lines = rows(selection.entries)
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([csv_cell(cell) for cell in line] for line in lines)
