"""`slipway launch`: price it, then launch it."""

from pathlib import Path
from typing import Annotated

import typer

from launcher.cli import options, output
from launcher.cli.confirm import confirm
from launcher.cli.plan_table import page
from launcher.cli.quote_page import page as quote_page
from launcher.cli.table import terminal_width
from launcher.model.errors import ImpossibleError
from launcher.records.documents import report_document
from launcher.workflow.fresh import refuse_unless_allowed
from launcher.workflow.price import PriceOptions, pick, price


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("launch")(launch)


def launch(
    file: options.PlanPath,
    *,
    wanted: options.Pick = None,
    sandbox: options.InSandbox = False,
    yes: options.Yes = False,
    json: options.Json = False,
    interrupt_after: Annotated[
        float | None,
        typer.Option("--interrupt-after", min=0, metavar="SECONDS", help="Play a spot interruption (sandbox)."),
    ] = None,
    region: options.Region = None,
    max_usd: options.MaxUsd = None,
) -> None:
    """Price a plan, deploy its cluster, run its job to the end, and report. Nothing starts without an allowed quote."""
    if not sandbox:
        raise ImpossibleError(
            "launch runs in the sandbox only, so far: a job cannot be submitted to a cluster in AWS yet",
            hint="add --sandbox, or slipway deploy FILE for the cluster alone",
        )
    from launcher.cli.launch_progress import Narrator
    from launcher.cli.report_page import page as report_page
    from launcher.workflow.launch import LaunchOptions, launch_in_sandbox

    priced = price(
        file, options.now(), PriceOptions(cache=options.price_cache(), region=region, max_usd=max_usd, sandbox=True)
    )
    rank, quoted = pick(priced, wanted)
    for line in (
        *page(priced, terminal_width(), everything=False),
        *quote_page(quoted, rank, terminal_width(), priced.now.date(), str(file)),
    ):
        output.say(line)
    refuse_unless_allowed(quoted)
    confirm(f"launch {quoted.plan.name} in the sandbox", yes=yes)
    narrator = Narrator()
    asked = LaunchOptions(
        root=Path.cwd(), interrupt_after_s=interrupt_after, tell=narrator.tell, progress=narrator.progress
    )
    folder, report = launch_in_sandbox(priced, rank, quoted, asked)
    if json:
        output.document(report_document(report))
    else:
        output.result(report_page(report, terminal_width()))
    output.say(f"\n  {folder.path / 'report.json'}\n\n  next: slipway logs {report.name}")
