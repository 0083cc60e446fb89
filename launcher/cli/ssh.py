"""`slipway ssh`: a shell on a node of a job, or of its cluster."""

import os
from pathlib import Path
from typing import Annotated

import typer

from launcher.cli import options, output, places
from launcher.records.submission import with_job


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("ssh")(places.with_place(ssh))


def ssh(
    run: options.RunName,
    node: Annotated[str | None, typer.Argument(metavar="NODE", help="The same as --node.")] = None,
    *,
    by_option: options.Node = None,
) -> None:
    """Open a shell on a node of a plan's running job (default: the first). Opens no port.

    Without a running job the shell is on a node of the cluster: with Slurm as a job of its own on an idle node, over
    ssh from the head node on any other, and on Kubernetes in a pod with the plan's image, removed afterwards.
    """
    from launcher.workflow.run.on_nodes import choose_node, nodes_of

    name = places.plan_name(run)
    with nodes_of(name, with_job(name, Path.cwd(), output.say), os.environ, output.say) as nodes:
        place = choose_node(nodes, node if node is not None else by_option)
        others = f", node {nodes.names.index(place)} of 0 to {len(nodes.names) - 1}" if len(nodes.names) > 1 else ""
        output.say(f"  on {place}{others}; exit ends this shell alone")
        code = nodes.shell(place)
    raise typer.Exit(code)
