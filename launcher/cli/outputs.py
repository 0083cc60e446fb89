"""`slipway outputs`: list and download the output files of a job."""

from pathlib import Path
from typing import Annotated

import typer

from launcher.cli import options, output
from launcher.cli.checkpoints import name_or_uri, progress_bar, store_of


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("outputs")(outputs)


def outputs(
    source: options.RunName,
    *,
    target: Annotated[
        Path | None, typer.Option("--to", metavar="DIR", help="Download the files to this folder.")
    ] = None,
    run: Annotated[
        str | None, typer.Option("--run", help="The id of a run. Default: the newest run with outputs.")
    ] = None,
    region: options.Region = None,
    run_store: options.Store = None,
    sandbox: options.AttachSandbox = False,
    json: options.Json = False,
) -> None:
    """List the files that a job stored as its outputs (`run.outputs`), or download them."""
    from launcher.answers.outputs import document, page, summary
    from launcher.workflow.run.outputs import fetch_outputs, stored_outputs

    source = name_or_uri(source, run_store, region, sandbox=sandbox)
    store = store_of(source, region, sandbox=sandbox)
    stored = stored_outputs(store, run)
    if target is not None:
        with progress_bar("outputs", sum(file.bytes for file in stored.files)) as advance:
            fetch_outputs(store, stored, target, advance)
    if json:
        output.document(document(source, store.uri, stored, target))
    elif target is not None:
        output.result([f"  {target}: {summary(stored)}"])
    else:
        output.result(page(stored, output.terminal_width()))
        output.say("", f"  next: slipway outputs {source} --to DIR")
