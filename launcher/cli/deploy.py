"""`slipway deploy`: the cluster or the endpoint of a plan, deployed behind its quote."""

import os
from collections.abc import Mapping
from pathlib import Path

import typer

from launcher.cli import options, output
from launcher.cli.confirm import confirm
from launcher.cli.quote_page import page as quote_page
from launcher.cli.table import terminal_width
from launcher.model.quote import Quote
from launcher.pricing.priced import Priced
from launcher.workflow.quote.fresh import fresh_quote, refuse_unless_allowed
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import pick, price


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("deploy")(deploy)


def deploy(
    file: options.PlanPath,
    *,
    wanted: options.Pick = None,
    sandbox: options.InSandbox = False,
    yes: options.Yes = False,
    dry_run: options.DryRun = False,
    despite_verdict: options.DespiteVerdict = False,
    region: options.Region = None,
    max_price_age: options.MaxPriceAge = None,
    max_usd: options.MaxUsd = None,
) -> None:
    """Price a plan and deploy its cluster without a job, or its endpoint. --sandbox tries it on this machine.

    An endpoint is waited for until it is in service with what was asked for; slipway launch sends it a request, too.
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
    if sandbox or dry_run:
        priced = price(file, options.now(), asked)
        rank, quoted = pick(priced, wanted)
        refuse_unless_allowed(priced, quoted, asked, output.say)
    else:
        environment = dict(os.environ)
        priced, rank, quoted = fresh_quote(
            file, options.now(), asked, wanted=wanted, environment=environment, say=output.say
        )
    for line in quote_page(quoted, rank, terminal_width(), priced.now.date(), str(file)):
        output.say(line)
    where = "the sandbox" if sandbox else f"AWS, {quoted.plan.place.region}"
    if not dry_run:
        confirm(f"deploy {quoted.plan.cluster_name} to {where}", yes=yes)
    done = _deployed(priced, rank, quoted, sandbox=sandbox, dry_run=dry_run)
    shown = {
        name: value for stack in done.values() for name, value in stack.items() if not name.startswith("ExportsOutput")
    }
    output.result([f"  {name}: {value}" for name, value in sorted(shown.items())])
    if "Connect" in shown:
        from launcher.workflow.deploy.ways_in import ways_in

        ways = ways_in(quoted.plan, shown)
        output.result(["", "  ways in", *(f"    {what}: {command}" for what, command in ways)])
    if sandbox:
        output.say("\n  The sandbox has ended and all of this is gone; nothing was spent.")
    elif "EndpointName" in shown:
        output.say(f"\n  next: slipway endpoint test {quoted.plan.name}")


def _deployed(
    priced: Priced, rank: int, quoted: Quote, *, sandbox: bool, dry_run: bool
) -> Mapping[str, Mapping[str, str]]:
    """The outputs of what was deployed; of a dry run none."""
    from launcher.cli.launch_progress import Narrator
    from launcher.workflow.deploy.deployment import DeployOptions, deploy_quote

    how = DeployOptions(root=Path.cwd(), sandbox=sandbox, dry_run=dry_run, tell=Narrator().tell)
    if priced.request.workload.serve is None:
        return deploy_quote(priced, rank, quoted, how)
    from launcher.workflow.endpoint.deployment import run_endpoint, show_endpoint

    if dry_run:
        show_endpoint(priced, rank, quoted, how)
        return {}
    return run_endpoint(priced, rank, quoted, how, ask=False).outputs
