"""`slipway down`: remove a cluster or an endpoint, and list retained resources."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from launcher.answers import down as answer
from launcher.cli import completion, options, output, places
from launcher.cli.confirm import confirm, confirm_by_name, refuse_without_terminal
from launcher.cli.option_values import region_name
from launcher.model.errors import UnreadableInputError
from launcher.model.plan import Plan
from launcher.model.removal import Removal

if TYPE_CHECKING:
    from launcher.catalog.load import Catalog
    from launcher.workflow.deploy.down import RemovalTarget

RemovedRegion = Annotated[
    str | None,
    typer.Option(
        "--region",
        parser=region_name,
        metavar="REGION",
        help="The region, if neither the plan file nor a run names one.",
        autocompletion=completion.regions,
    ),
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("down")(down)


def down(
    what: Annotated[
        str,
        typer.Argument(
            metavar="NAME|FILE",
            help="The name of a cluster or endpoint, or its plan file.",
            autocompletion=completion.clusters_and_files,
        ),
    ],
    *,
    region: RemovedRegion = None,
    checkpoints: Annotated[bool, typer.Option("--checkpoints", help="Delete the checkpoint store too.")] = False,
    confirmed: Annotated[
        str | None,
        typer.Option("--confirm", metavar="NAME", help="With --checkpoints: confirm the deletion without a prompt."),
    ] = None,
    yes: options.Yes = False,
    dry_run: options.DryRun = False,
    store: options.Store = None,
    sandbox: options.AttachSandbox = False,
    approval: options.ApprovalId = None,
    json: options.Json = False,
) -> None:
    """Remove a cluster and its network, or an endpoint. Keeps checkpoints; lists retained resources and their cost.

    For a plan on an existing Kubernetes cluster (target.cluster), it removes the jobs and keeps the cluster.
    """
    from launcher.catalog.load import load
    from launcher.workflow.deploy.down import subject
    from launcher.workflow.run.existing_down import joined_plan

    places.use_store(store, region, sandbox=sandbox)
    if approval is not None:
        # A file could name another region or cluster than the person meant.
        what = places.plan_name(what, region)
        region = _use_up(approval, what, region, sandbox=sandbox, checkpoints=checkpoints, dry_run=dry_run)
        yes = True
    environment = places.environment_of(places.plan_name(what, region), sandbox=sandbox, region=region)
    catalog = load(overlay=options.price_cache(), today=options.now().date())
    joined = joined_plan(what, Path.cwd(), catalog)
    if joined is not None:
        _jobs_down(joined, environment, yes=yes, dry_run=dry_run, checkpoints=checkpoints, json=json)
        return
    resolved = subject(what, region, Path.cwd(), environment)
    removal = _stacks_down(
        resolved, environment, catalog, yes=yes, dry_run=dry_run, checkpoints=checkpoints, confirmed=confirmed
    )
    output.answer(answer, removal, json=json)


def _use_up(
    approval: str, name: str, region: str | None, *, sandbox: bool, checkpoints: bool, dry_run: bool
) -> str | None:
    """Use an approval of the removal up, except in a dry run; return its region."""
    from launcher.records.approval import Action, claim
    from launcher.workflow.quote.approval import usable

    if checkpoints:
        raise UnreadableInputError("an approval never covers --checkpoints", hint="a person removes checkpoints")
    known = usable(approval, Action.DOWN, file=name, sandbox=sandbox, environment=os.environ, now=options.now())
    if region not in (None, known.region):
        message = f"approval {approval} is for region {known.region or 'of the newest run'}, not {region}"
        raise UnreadableInputError(message, hint="leave out --region")
    if Path(known.folder) != Path.cwd():
        message = f"approval {approval} is for {known.folder}, not {Path.cwd()}"
        raise UnreadableInputError(message, hint=f"run it in {known.folder}")
    if not dry_run:
        claim(known, os.environ)
    return known.region


def _stacks_down(
    resolved: "RemovalTarget",
    environment: Mapping[str, str],
    catalog: "Catalog",
    *,
    yes: bool,
    dry_run: bool,
    checkpoints: bool,
    confirmed: str | None,
) -> Removal:
    from launcher.aws.session import Session
    from launcher.cli.console import StepPrinter
    from launcher.workflow.deploy.down import record_removal, survey, take_down
    from launcher.workflow.history.idle_tail import learn_tails
    from launcher.workflow.run.status import read_before_removal

    if not dry_run:
        answered = yes and (not checkpoints or confirmed is not None)
        flags = f"--yes --confirm {resolved.cluster}" if checkpoints else "--yes"
        refuse_without_terminal(f"remove {resolved.cluster}", yes=answered, flags=flags)
    session = Session(environment=environment, region=resolved.region)
    surveyed = survey(resolved, session, catalog, erase=checkpoints)
    removal = surveyed.removal
    if not dry_run and surveyed.going:
        for line in answer.page(removal, output.terminal_width()):
            output.say(line)
        confirm(f"remove {resolved.cluster} in {resolved.region}", yes=yes)
        if checkpoints:
            confirm_by_name("delete its checkpoints for good", resolved.cluster, given=confirmed)
        read_before_removal(resolved.cluster, Path.cwd(), os.environ, output.say)
        # The guard counts nodes until it goes.
        learn_tails(resolved.cluster, Path.cwd(), environment, options.now(), output.say)
        removal = take_down(surveyed, session, catalog, StepPrinter().notify)
        record_removal(removal, Path.cwd(), environment, output.say)
    return removal


def _jobs_down(
    plan: Plan, environment: dict[str, str], *, yes: bool, dry_run: bool, checkpoints: bool, json: bool
) -> None:
    from launcher.cli.console import StepPrinter
    from launcher.workflow.run.existing_down import remove_jobs, survey_jobs

    if checkpoints:
        message = f"--checkpoints does not work with the existing cluster {plan.cluster_name}, which stays"
        raise UnreadableInputError(
            message, hint="leave out --checkpoints; slipway down NAME shows how to delete the plan's checkpoints"
        )
    question = f"delete the jobs of {plan.name} on {plan.cluster_name}"
    if not dry_run:
        refuse_without_terminal(question, yes=yes, flags="--yes")
    surveyed = survey_jobs(plan, environment)
    removal = surveyed.removal
    if not dry_run and (surveyed.jobs or surveyed.granted):
        for line in answer.page(removal, output.terminal_width()):
            output.say(line)
        confirm(question, yes=yes)
        removal = remove_jobs(surveyed, environment, StepPrinter().notify)
    output.answer(answer, removal, json=json)
