"""`slipway launch`: price it, then launch it."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from launcher.cli import options, output
from launcher.cli.confirm import confirm, refuse_without_terminal
from launcher.cli.plan_page import page
from launcher.cli.quote_page import page as quote_page
from launcher.cli.table import terminal_width
from launcher.model.errors import UnreadableInputError
from launcher.model.quote import Quote
from launcher.model.report import Report
from launcher.pricing.priced import Priced
from launcher.records.documents import report_document
from launcher.records.run_folder import RunFolder
from launcher.workflow.quote.fresh import fresh_quote, refuse_unless_allowed
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import pick, price


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
        typer.Option(
            "--interrupt-after",
            min=0,
            metavar="SECONDS",
            help="Play a spot interruption, on HyperPod the failure of a node (sandbox).",
        ),
    ] = None,
    region: options.Region = None,
    max_price_age: options.MaxPriceAge = None,
    despite_verdict: options.DespiteVerdict = False,
    max_usd: options.MaxUsd = None,
) -> None:
    """Price a plan, deploy its cluster, run its job to the end, and report. Nothing starts without an allowed quote.

    Where the plan names a cluster (target.cluster) or a head node (target.ssh_host), nothing is deployed: the job goes
    there. Ctrl-C stops following; the job goes on.

    Of a serving plan the endpoint is deployed as by slipway deploy, and then sent one real request of its kind.
    """
    asked = PriceOptions(
        cache=options.price_cache(),
        runs=Path.cwd(),
        region=region,
        max_price_age=max_price_age,
        max_usd=max_usd,
        sandbox=sandbox,
        despite_verdict=despite_verdict,
    )
    if sandbox:
        folder, report = _in_sandbox(file, asked, wanted=wanted, yes=yes, interrupt_after=interrupt_after)
    else:
        if interrupt_after is not None:
            raise UnreadableInputError("--interrupt-after plays an interruption in the sandbox", hint="add --sandbox")
        folder, report = _on_a_cluster(file, asked, wanted=wanted, yes=yes)
    if json:
        output.document(report_document(report))
    else:
        from launcher.cli.report_page import page as report_page

        output.result(report_page(report, terminal_width()))
    output.say(f"\n  {folder.path / 'report.json'}")
    if report.endpoint is None:
        output.say(f"\n  next: slipway logs {report.name}")
    elif not sandbox:
        output.say(f"\n  next: slipway endpoint test {report.name}, slipway down {report.name}")


def _in_sandbox(
    file: Path, asked: PriceOptions, *, wanted: str | None, yes: bool, interrupt_after: float | None
) -> tuple[RunFolder, Report]:
    """Launch into an embedded AWS that ends with this command."""
    from launcher.cli.launch_progress import Narrator
    from launcher.workflow.run.launch import LaunchOptions, launch_in_sandbox

    priced = price(file, options.now(), asked)
    serves = _serves(priced, interrupt_after)
    rank, quoted = pick(priced, wanted)
    for line in page(priced, terminal_width(), everything=False):
        output.say(line)
    _show(priced, rank, quoted, file)
    refuse_unless_allowed(priced, quoted, asked, output.say)
    confirm(f"launch {quoted.plan.name} in the sandbox", yes=yes)
    if serves:
        return _endpoint(priced, rank, quoted, sandbox=True)
    narrator = Narrator()
    how = LaunchOptions(
        root=Path.cwd(), interrupt_after_s=interrupt_after, tell=narrator.tell, progress=narrator.progress
    )
    return launch_in_sandbox(priced, rank, quoted, how)


def _on_a_cluster(file: Path, asked: PriceOptions, *, wanted: str | None, yes: bool) -> tuple[RunFolder, Report]:
    """Launch on current prices; where no machines come, go on to the next candidate, quoted and approved anew."""
    from launcher.cli.launch_progress import Narrator
    from launcher.workflow.run.fallback import Fallback, Picked, place_words
    from launcher.workflow.run.launch_aws import LaunchSetting

    refuse_without_terminal("launch", yes=yes)
    environment, every_zone = dict(os.environ), replace(asked, everything=True)

    def approve(found: Picked) -> None:
        priced, rank, quoted = found
        _show(priced, rank, quoted, file)
        confirm(f"launch {quoted.plan.name}: {place_words(quoted.plan.place)}", yes=yes)

    def requote(digest: str) -> Picked:
        return fresh_quote(file, options.now(), every_zone, wanted=digest, environment=environment, say=output.say)

    first = fresh_quote(file, options.now(), asked, wanted=wanted, environment=environment, say=output.say)
    for line in page(first[0], terminal_width(), everything=False, called=True):
        output.say(line)
    approve(first)
    if _serves(first[0], None):
        return _endpoint(*first, sandbox=False)
    narrator = Narrator()
    setting = LaunchSetting(root=Path.cwd(), environment=environment, tell=narrator.tell, progress=narrator.progress)
    story = Fallback(
        setting=setting,
        candidates=lambda: price(file, options.now(), every_zone),
        requote=requote,
        approve=approve,
    )
    return story.launch(first)


def _serves(priced: Priced, interrupt_after: float | None) -> bool:
    """Whether a plan makes an endpoint, which has no job to interrupt.

    Raises:
        UnreadableInputError: it does, and an interruption is asked for.
    """
    serves = priced.request.workload.serve is not None
    if serves and interrupt_after is not None:
        raise UnreadableInputError(
            "--interrupt-after interrupts a job, and a serving plan has none", hint="drop --interrupt-after"
        )
    return serves


def _endpoint(priced: Priced, rank: int, quoted: Quote, *, sandbox: bool) -> tuple[RunFolder, Report]:
    """Deploy an endpoint and ask it."""
    from launcher.cli.launch_progress import Narrator
    from launcher.workflow.deploy.deployment import DeployOptions
    from launcher.workflow.endpoint.deployment import run_endpoint

    how = DeployOptions(root=Path.cwd(), sandbox=sandbox, dry_run=False, tell=Narrator().tell)
    done = run_endpoint(priced, rank, quoted, how, ask=True)
    return done.folder, done.report


def _show(priced: Priced, rank: int, quoted: Quote, file: Path) -> None:
    """The quote, on standard error."""
    for line in quote_page(quoted, rank, terminal_width(), priced.now.date(), str(file)):
        output.say(line)
