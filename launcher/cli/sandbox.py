"""`slipway sandbox`: an AWS on this machine that stays, to rehearse every command in."""

import os
from typing import Annotated, Any

import typer

from launcher.cli import options, output
from launcher.model.errors import ImpossibleError


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(help="An embedded AWS that stays: start it, look at it, end it.", no_args_is_help=True)
    group.command("start")(start)
    group.command("status")(status)
    group.command("stop")(stop)
    app.add_typer(group, name="sandbox")


def start(
    *,
    scheduler: Annotated[
        str, typer.Option("--scheduler", metavar="NAME", help="slurm, local, or auto: Slurm where it is installed.")
    ] = "auto",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Of its AWS; 0: any that is free.", show_default=False)
    ] = 0,
) -> None:
    """Start it. From here on --sandbox uses it, from every terminal, until slipway sandbox stop ends it."""
    from launcher.sandbox import staying

    made = staying.start(os.environ, scheduler=scheduler, port=port)
    slurm = "Slurm's own daemons" if made.scheduler == "slurm" else "a local scheduler in Slurm's place"
    output.result([f"  the sandbox runs: http://localhost:{made.port}; clusters with Slurm have {slurm}"])
    output.say("\n  next: slipway launch FILE --sandbox")
    output.say("  next: slipway sandbox stop")


def status(*, json: options.Json = False) -> None:
    """Show whether it runs, and the stacks and clusters in it."""
    from launcher.records.sandbox_document import no_sandbox_document, sandbox_document
    from launcher.sandbox import staying
    from launcher.sandbox.sandbox import Sandbox

    found = staying.find(os.environ)
    if found is None:
        if json:
            output.document(no_sandbox_document())
        else:
            output.result(["  no sandbox runs"])
            output.say("\n  next: slipway sandbox start")
        return
    box = Sandbox.attached(found, region=options.region_of(os.environ))
    stacks = [dict(each) for each in box.stacks()]
    clusters = [
        {
            "name": name,
            "scheduler": box.scheduler_name(name),
            "nodes": len(box.nodes(name)),
            "jobs": [{key: job[key] for key in ("id", "name", "state")} for job in box.jobs(name)],
        }
        for name in box.clusters()
    ]
    if json:
        output.document(
            sandbox_document(
                endpoint=box.endpoint,
                scheduler=found.scheduler,
                since=found.since,
                stacks=stacks,
                clusters=clusters,
            )
        )
        return
    output.result(_page(found, stacks, clusters))


_WORDS = {"slurm": "Slurm", "local": "the local scheduler in Slurm's place", "kubernetes": "Kubernetes"}
"""What schedules the jobs of a cluster."""


def _page(found: Any, stacks: list[dict[str, str]], clusters: list[dict[str, Any]]) -> list[str]:
    """What is there, as lines."""
    lines = [f"  the sandbox runs since {found.since}: http://localhost:{found.port}"]
    width = max((len(each["name"]) for each in stacks), default=0)
    lines += [f"  {each['name']:<{width}}  {each['region']}  {each['status']}" for each in stacks]
    for each in clusters:
        nodes = "1 node" if each["nodes"] == 1 else f"{each['nodes']} nodes"
        lines.append(f"  cluster {each['name']}: {_WORDS[each['scheduler']]}, {nodes}")
        lines += [f"    job {job['id']}  {job['state'].lower():<10} {job['name']}" for job in each["jobs"]]
    return lines if stacks else [*lines, "  nothing is deployed in it"]


def stop() -> None:
    """End it, with everything that runs in it; no process, port or file of it is left."""
    from launcher.sandbox import staying

    if staying.stop(os.environ) is None:
        raise ImpossibleError("no sandbox runs", hint="slipway sandbox start")
    output.result(["  the sandbox has ended, and all that was in it"])
