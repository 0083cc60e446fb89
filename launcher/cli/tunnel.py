"""`slipway tunnel`: forward a port of a job's node to this computer."""

import os
from pathlib import Path
from typing import Annotated

import typer

from launcher.cli import options, output
from launcher.records.submission import with_job


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("tunnel")(tunnel)


def tunnel(
    run: options.RunName,
    port: Annotated[int, typer.Argument(min=1, max=65535, help="The port on the node.")],
    *,
    node: options.Node = None,
    here: Annotated[
        int | None,
        typer.Option("--local", min=1, max=65535, metavar="PORT", help="The local port. Default: the same number."),
    ] = None,
) -> None:
    """Forward a local port to a port of a node (TensorBoard, Jupyter) until Ctrl-C. Listens on localhost only."""
    from launcher.workflow.run.on_nodes import chosen, nodes_of

    name, local = options.plan_name(run), port if here is None else here
    with nodes_of(name, with_job(name, Path.cwd(), output.say), os.environ) as nodes:
        place = chosen(nodes, node)
        line = f"  http://localhost:{local} leads to port {port} of {place}; Ctrl-C ends it"
        code = nodes.tunnel(place, port, local, lambda: output.say(line))
    raise typer.Exit(code)
