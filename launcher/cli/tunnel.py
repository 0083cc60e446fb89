"""`slipway tunnel`: forward a port of a job's node to this computer."""

import os
from pathlib import Path
from typing import Annotated

import typer

from launcher.cli import options, output, places
from launcher.model.errors import UnreadableInputError
from launcher.records.submission import with_job


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("tunnel")(places.with_place(tunnel))


def tunnel(
    run: options.RunName,
    port: Annotated[
        int | None,
        typer.Argument(
            min=1, max=65535, help="The port on the node. Default: TensorBoard's, 6006, if the job writes its logs."
        ),
    ] = None,
    *,
    node: options.Node = None,
    here: Annotated[
        int | None,
        typer.Option("--local", min=1, max=65535, metavar="PORT", help="The local port. Default: the same number."),
    ] = None,
) -> None:
    """Forward a local port to a port of a node (TensorBoard, Jupyter) until Ctrl-C. Listens on localhost only."""
    from launcher.workflow.run.on_nodes import TENSORBOARD_PORT, choose_node, nodes_of, tensorboard_folder

    name = places.plan_name(run)
    with nodes_of(name, with_job(name, Path.cwd(), output.say), os.environ, output.say) as nodes:
        place = choose_node(nodes, node)
        if port is None:
            folder = tensorboard_folder(nodes, place)
            if folder is None:
                message = f"no port: the job of {name} writes no logs for TensorBoard on {place}"
                raise UnreadableInputError(message, hint=f"slipway tunnel {name} 8888, for Jupyter's, or another port")
            port = TENSORBOARD_PORT
            output.say(
                f"  the job writes logs for TensorBoard to {folder}; if none serves them yet, in another terminal:",
                f"    slipway exec {name} --node {place} -- tensorboard --logdir {folder} --port {port} --bind_all",
            )
        local = port if here is None else here
        line = f"  http://localhost:{local} leads to port {port} of {place}; Ctrl-C ends it"
        code = nodes.tunnel(place, port, local, lambda: output.say(line))
    raise typer.Exit(code)
