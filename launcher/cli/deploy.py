"""`slipway deploy`: the cluster or the endpoint of a plan, deployed behind its quote."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from launcher.cli import options, output
from launcher.records.approval import Action

if TYPE_CHECKING:
    from launcher.model.quote import Quote

_SANDBOX_ENDED = "The sandbox has ended and removed everything; nothing was spent."


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("deploy")(options.with_settings(deploy))


def deploy(
    file: options.PlanPath,
    *,
    selection: options.Pick = None,
    sandbox: options.InSandbox = False,
    yes: options.Yes = False,
    dry_run: options.DryRun = False,
    despite_verdict: options.DespiteVerdict = False,
    region: options.Region = None,
    max_price_age: options.MaxPriceAge = None,
    max_usd: options.MaxUsd = None,
    approval: options.ApprovalId = None,
    json: options.Json = False,
) -> None:
    """Price a plan and deploy its cluster without a job, or its endpoint. --sandbox uses an emulated AWS.

    The command shows the changes in the account before it asks; --dry-run ends there. A saved plan (slipway plan -o) is
    deployed exactly as saved, or refused if something changed.

    For an endpoint, it waits until it is in service with the requested configuration; slipway launch also tests it.
    """
    price_options = options.price_options(
        region=region,
        max_price_age=max_price_age,
        max_usd=max_usd,
        any_age=sandbox,
        despite_verdict=despite_verdict,
    )
    from launcher.cli.approved import answers
    from launcher.workflow.deploy.context import DeployOptions
    from launcher.workflow.deploy.plan_deploy import deploy_plan

    given = answers(approval, Action.DEPLOY, file, price_options, selection, yes=yes, sandbox=sandbox)
    console, priced, chosen = given.console, given.price_options, given.selection
    deploy_options = DeployOptions(root=Path.cwd(), sandbox=sandbox, dry_run=dry_run, notify=console.notify)
    quoted, done = deploy_plan(file, options.now(), priced, selection=chosen, options=deploy_options, console=console)
    if json:
        from launcher.answers.deploy import document

        output.document(document(quoted, done, simulated=sandbox, deployed=not dry_run))
        return
    _print_outputs(quoted, done, sandbox=sandbox and not dry_run)


def _print_outputs(quoted: "Quote", done: Mapping[str, Mapping[str, str]], *, sandbox: bool) -> None:
    """Print the outputs of the stacks, the ways into the cluster and the next command."""
    shown = {
        name: value for stack in done.values() for name, value in stack.items() if not name.startswith("ExportsOutput")
    }
    output.result([f"  {name}: {value}" for name, value in sorted(shown.items())])
    if "Connect" in shown:
        from launcher.targets.clusters import cluster_of

        commands = cluster_of(quoted.plan).access_commands(quoted.plan, shown)
        output.result(["", "  access", *(f"    {label}: {command}" for label, command in commands)])
    if sandbox:
        from launcher.emulation import find_sandbox

        stays = find_sandbox(os.environ, quoted.plan.place.region) is not None
        next_step = f"next: slipway down {quoted.plan.cluster_name} --sandbox" if stays else _SANDBOX_ENDED
        output.say("", f"  {next_step}")
    elif "EndpointName" in shown:
        output.say("", f"  next: slipway endpoint test {quoted.plan.name}")
