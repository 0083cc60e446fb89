"""`slipway launch`: price it, then launch it."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from launcher.cli import options, output
from launcher.cli.confirm import refuse_without_terminal
from launcher.model.errors import UnreadableInputError
from launcher.records.approval import Action

if TYPE_CHECKING:
    from launcher.cli.approved import Answers
    from launcher.model.report import Report
    from launcher.records.run_folder import RunFolder
    from launcher.workflow.run.launch_options import LaunchOptions

InterruptAfter = Annotated[
    float | None,
    typer.Option(
        "--interrupt-after",
        min=0,
        metavar="SECONDS",
        help="Simulate a spot interruption (on HyperPod: a node failure); sandbox only.",
    ),
]
Fresh = Annotated[bool, typer.Option("--fresh", help="Start at step 0 under a new checkpoint prefix; deletes nothing.")]

FromStep = Annotated[
    int | None,
    typer.Option(
        "--from-step",
        min=0,
        metavar="STEP",
        help="Resume from the stored checkpoint of this step. Later ones are not used, and not deleted.",
    ),
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("launch")(options.with_settings(launch))


def launch(
    file: options.PlanPath,
    *,
    selection: options.Pick = None,
    sandbox: options.InSandbox = False,
    yes: options.Yes = False,
    dry_run: options.DryRun = False,
    json: options.Json = False,
    interrupt_after: InterruptAfter = None,
    fresh: Fresh = False,
    from_step: FromStep = None,
    region: options.Region = None,
    max_price_age: options.MaxPriceAge = None,
    despite_verdict: options.DespiteVerdict = False,
    max_usd: options.MaxUsd = None,
    approval: options.ApprovalId = None,
) -> None:
    """Price a plan, deploy its cluster, run its job to the end, and report. The gate must allow the quote.

    The command shows the changes in the account before it asks; --dry-run ends there. A saved plan (slipway plan -o) is
    deployed exactly as saved, or refused if something changed.

    If the plan names a cluster (target.cluster) or a head node (target.ssh_host), the job runs there and nothing is
    deployed. Ctrl-C stops following; the job continues.

    If the guard in the account stopped the job at budget.stop_at_usd, the command exits with 6. To continue, raise the
    limit in the plan file and launch again: the nodes start again, the guard continues its count, and the job resumes
    from its newest complete checkpoint.

    For a serving plan, the command deploys the endpoint like slipway deploy and sends it one real request.
    """
    price_options = options.price_options(
        region=region,
        max_price_age=max_price_age,
        max_usd=max_usd,
        any_age=sandbox,
        despite_verdict=despite_verdict,
    )
    from launcher.cli.approved import answers
    from launcher.workflow.run.plan_launch import launch_plan

    if fresh and from_step is not None:
        raise UnreadableInputError("--fresh and --from-step exclude each other", hint="use one of them")
    if not sandbox and not dry_run and approval is None:
        refuse_without_terminal("launch", yes=yes)
    given = answers(approval, Action.LAUNCH, file, price_options, selection, yes=yes, sandbox=sandbox)
    launch_options = _launch_options(
        given, sandbox=sandbox, dry_run=dry_run, interrupt_after_s=interrupt_after, fresh=fresh, from_step=from_step
    )
    console, price_options, selection = given.console, given.price_options, given.selection
    with console:
        done = launch_plan(
            file, options.now, price_options, selection=selection, options=launch_options, console=console
        )
    if isinstance(done, tuple):
        _print_report(*done, json=json, rehearsed=file if sandbox else None)
    elif json:
        from launcher.answers.deploy import document

        output.document(document(done, {}, simulated=sandbox, deployed=False))


def _launch_options(given: "Answers", **chosen: Any) -> "LaunchOptions":
    """Where and how to launch, with progress in the terminal; `chosen` are fields of LaunchOptions."""
    from launcher.workflow.run.launch_options import LaunchOptions

    console = given.console
    return LaunchOptions(
        root=Path.cwd(),
        notify=console.notify,
        progress=console.progress,
        meter=console.meter,
        second=given.second,
        exact=given.exact,
        **chosen,
    )


def _print_report(folder: "RunFolder", report: "Report", *, json: bool, rehearsed: Path | None) -> None:
    """Print the report, its path and the next commands; after a launch in the sandbox, those for AWS."""
    from launcher.records.report_document import report_document

    if json:
        output.document(report_document(report))
    else:
        from launcher.answers.report import page as report_page

        output.result(report_page(report, output.terminal_width(), everything=output.verbose()))
    output.say("", f"  {folder.path / 'report.json'}")
    from launcher import emulation

    stands = rehearsed is None or emulation.find(os.environ) is not None
    if report.endpoint is None:
        output.say("", f"  next: slipway logs {report.name}")
    elif stands:
        output.say("", f"  next: slipway endpoint test {report.name}")
        output.say(f"  next: slipway endpoint load {report.name}")
    else:
        output.say("", "  The emulated AWS ended with this launch, and the endpoint with it.")
        output.say("  To keep an endpoint and test it: slipway sandbox start, then launch again.")
    if stands:
        output.say(f"  next: slipway down {report.name}")
    if rehearsed is not None:
        output.say("  to run it on AWS, set AWS credentials, then")
        from launcher.workflow.quote.commands import command_with

        doctor, launch = (command_with(str(rehearsed), name, ()) for name in ("doctor", "launch"))
        output.say(f"    {doctor}    # what the account lacks", f"    {launch}")
