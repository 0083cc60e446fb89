"""`slipway cost`: Slipway's stacks in the account, and their cost."""

from pathlib import Path
from typing import Annotated

import typer

from launcher.cli import completion, options, output, places
from launcher.cli.option_values import region_name
from launcher.model.errors import UnreadableInputError


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("cost")(cost)


def cost(
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME|FILE",
            help="A cluster or endpoint, or its plan file: list only its stacks, where its newest run is.",
            autocompletion=completion.clusters_and_files,
        ),
    ] = None,
    *,
    json: options.Json = False,
    region: Annotated[
        str | None,
        typer.Option(
            "--region",
            parser=region_name,
            metavar="REGION",
            help="List only this region.",
            autocompletion=completion.regions,
        ),
    ] = None,
    store: options.Store = None,
    sandbox: options.AttachSandbox = False,
) -> None:
    """List every Slipway stack in the account: owner, start, dollars per hour, dollars so far, and end.

    Each cluster's guard counts its nodes every 5 minutes; Slipway prices the nodes at the rate of the cluster's quote.
    """
    from launcher.answers import cost as answer
    from launcher.aws.clients import Sessions
    from launcher.catalog.load import load
    from launcher.model.emulator import MARK
    from launcher.workflow.doctor.running_costs import survey

    now = options.now()
    catalog = load(overlay=options.price_cache(), today=now.date())
    places.use_store(store, region, sandbox=sandbox)
    if what is None:
        if store is not None:
            raise UnreadableInputError("--store finds the runs of a name", hint="slipway cost NAME --store S3_URI")
        environment, cluster = places.environment(sandbox=sandbox), None
    else:
        from launcher.workflow.deploy.down import subject

        environment = places.environment_of(places.plan_name(what, region), sandbox=sandbox, region=region)
        named = subject(what, region, Path.cwd(), environment)
        cluster, region = named.cluster, named.region
    costs = survey(Sessions(environment), catalog, now, only=region, cluster=cluster, sandbox=MARK in environment)
    output.answer(answer, costs, json=json)
