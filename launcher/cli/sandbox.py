"""`slipway sandbox`: an emulated AWS on this machine that keeps running, to try every command."""

import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from launcher.answers.table import Column, render
from launcher.cli import options, output, places
from launcher.cli.confirm import confirm
from launcher.model.errors import ImpossibleError

if TYPE_CHECKING:
    from launcher.emulation import RunningSandbox, Sandbox
_SHOWN = (
    *("AWS_ENDPOINT_URL", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"),
    *("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"),
)
_SHOWN_JOBS = 3
_SCHEDULER_NAMES = {
    "slurm": "Slurm",
    "local": "the built-in local scheduler",
    "kubernetes": "Kubernetes",
    "ec2": "plain instances",
}
"""What schedules the jobs of a cluster."""


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(help="Start, show and stop an emulated AWS that keeps running.", no_args_is_help=True)
    group.command("start")(start)
    group.command("status")(status)
    group.command("stop")(stop)
    app.add_typer(group, name="sandbox")


def start(
    *,
    scheduler: Annotated[
        str,
        typer.Option(
            "--scheduler", metavar="NAME", help="slurm, local (a built-in scheduler), or auto: Slurm if installed."
        ),
    ] = "auto",
    port: Annotated[
        int,
        typer.Option(
            "--port", min=0, max=65535, help="Port of the emulated AWS; 0: any free port.", show_default=False
        ),
    ] = 0,
    name: Annotated[
        str | None,
        typer.Option(
            "--name", metavar="NAME", help="Use the sandbox NAME in this folder; start the sandbox if needed."
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Start a sandbox. Commands with --sandbox use it, from every terminal, until slipway sandbox stop.

    All folders share one sandbox. --name gives this folder its own; .slipway/sandbox stores the name.
    """
    from launcher import emulation

    folder = Path.cwd()
    recorded = None if name is None else emulation.use(os.environ, folder, name)
    if recorded is not None:
        if json:
            _document(recorded)
            return
        output.result([f"  this folder uses the sandbox {name}, running since {recorded.since}"])
        return
    started = emulation.start(os.environ, folder=folder, scheduler=scheduler, port=port, name=name)
    if json:
        _document(started)
        return
    slurm = "Slurm's own daemons" if started.scheduler == "slurm" else "a built-in local scheduler"
    output.result(
        [f"  {_title(started.name)} is running: http://localhost:{started.port}; clusters with Slurm have {slurm}"]
    )
    output.say("", "  next: slipway launch FILE --sandbox")
    output.say("  next: slipway sandbox stop")


def status(*, json: options.Json = False) -> None:
    """Show whether the sandbox is running, with its stacks and clusters."""
    from launcher import emulation

    recorded, running = emulation.find(os.environ), emulation.all_running(os.environ)
    others = [sandbox.name for sandbox in running if recorded is None or sandbox.name != recorded.name]
    if recorded is None:
        if json:
            _none_document()
        else:
            output.result(
                [
                    f"  no sandbox is running for this folder ({emulation.used_in(Path.cwd())})",
                    *_others(others),
                ]
            )
            output.say("", "  next: slipway sandbox start")
        return
    if json:
        _document(recorded)
        return
    sandbox, stacks, clusters = _inside(recorded)
    exports = _exports(in_its_region(sandbox.environment, stacks), emulation.record_file(os.environ))
    output.result([*sandbox_page(recorded, stacks, clusters), *_others(others), "", *exports])


def _inside(recorded: "RunningSandbox") -> tuple["Sandbox", list[dict[str, str]], list[dict[str, Any]]]:
    from launcher.emulation import attach

    sandbox = attach(recorded, places.region_of(os.environ))
    stacks = [dict(stack) for stack in sandbox.stacks()]
    clusters = [
        {
            "name": name,
            "scheduler": sandbox.scheduler_name(name),
            "nodes": len(sandbox.nodes(name)),
            "jobs": [{key: job[key] for key in ("id", "name", "state")} for job in sandbox.jobs(name)],
        }
        for name in sandbox.clusters()
    ]
    return sandbox, stacks, clusters


def _none_document() -> None:
    from launcher.answers.sandbox import NoSandboxDocument
    from launcher.records.codec import as_json

    output.document(as_json(NoSandboxDocument()))


def _document(recorded: "RunningSandbox") -> None:
    from launcher.answers.sandbox import ClusterObject, SandboxDocument, StackObject
    from launcher.records.codec import as_json
    from launcher.records.document import fill_record

    sandbox, stacks, clusters = _inside(recorded)
    output.document(
        as_json(
            fill_record(
                SandboxDocument,
                recorded,
                endpoint=sandbox.endpoint,
                stacks=tuple(StackObject(**stack) for stack in stacks),
                clusters=tuple(ClusterObject(**cluster) for cluster in clusters),
            )
        )
    )


def in_its_region(environment: Mapping[str, str], stacks: list[dict[str, str]]) -> Mapping[str, str]:
    """The environment with the region of the stacks, where all are in one: `aws` and `cdk` then find them."""
    regions = {stack["region"] for stack in stacks}
    if len(regions) != 1:
        return environment
    (region,) = regions
    return {**environment, "AWS_REGION": region, "AWS_DEFAULT_REGION": region}


def _exports(environment: Mapping[str, str], place: Path) -> list[str]:
    """The lines that point a shell at the sandbox. Anywhere but on a terminal they read the secret from its file."""
    shown = {name: shlex.quote(environment[name]) for name in _SHOWN}
    if not sys.stdout.isatty():
        pattern = r's/.*"key_secret": "\([^"]*\)".*/\1/p'
        shown["AWS_SECRET_ACCESS_KEY"] = f"\"$(sed -n '{pattern}' {shlex.quote(str(place))})\""
    lines = [f"    export {name}={value}" for name, value in shown.items()]
    return ["  in a shell, for aws, boto3 and cdk:", *lines, "    unset AWS_PROFILE AWS_SESSION_TOKEN"]


def _title(name: str) -> str:
    return "the sandbox" if name == "default" else f"the sandbox {name}"


def _others(names: list[str]) -> list[str]:
    """The user's other sandboxes, and how this folder would use one."""
    return [f"  also running: {name}; slipway sandbox start --name {name} uses it in this folder" for name in names]


def sandbox_page(recorded: Any, stacks: list[dict[str, str]], clusters: list[dict[str, Any]]) -> list[str]:
    """The page of a running sandbox."""
    lines = [f"  {_title(recorded.name)} has been running since {recorded.since}: http://localhost:{recorded.port}"]
    columns: list[Column[dict[str, str]]] = [
        Column("stack", lambda stack: stack["name"], shrinks=True),
        Column("region", lambda stack: stack["region"]),
        Column("status", lambda stack: stack["status"]),
    ]
    lines += ["", *render(columns, stacks, output.terminal_width())] if stacks else []
    for cluster in clusters:
        nodes = "1 node" if cluster["nodes"] == 1 else f"{cluster['nodes']} nodes"
        lines.append(f"  cluster {cluster['name']}: {_SCHEDULER_NAMES[cluster['scheduler']]}, {nodes}")
        lines += [f"    job {job['id']}  {job['state'].lower():<10} {job['name']}" for job in cluster["jobs"]]
    return lines if stacks else [*lines, "  no stacks are deployed in it"]


def stop(*, yes: options.Yes = False, json: options.Json = False) -> None:
    """Stop the sandbox and everything in it; no process, port or file stays. Asks first while jobs run."""
    from launcher import emulation

    recorded = emulation.find(os.environ)
    jobs = () if recorded is None else emulation.attach(recorded, places.region_of(os.environ)).running_jobs()
    if recorded is not None and jobs:
        shown = ", ".join(jobs[:_SHOWN_JOBS]) + (f" and {len(jobs) - _SHOWN_JOBS} more" if jobs[_SHOWN_JOBS:] else "")
        confirm(f"end {_title(recorded.name)} with its running jobs ({shown})", yes=yes)
    ended = emulation.stop(os.environ)
    if ended is None:
        name = emulation.used_in(Path.cwd())
        raise ImpossibleError(f"no sandbox is running for this folder ({name})", hint="slipway sandbox start")
    if json:
        _none_document()
    else:
        output.result([f"  {_title(ended.name)} has stopped; everything in it is removed"])
