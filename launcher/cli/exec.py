"""`slipway exec`: a command on a node of a running job."""

import os
from pathlib import Path
from typing import Annotated

import typer

from launcher.cli import options, output, places
from launcher.records.submission import with_job


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("exec")(places.with_place(execute))


def execute(
    run: options.RunName,
    command: Annotated[list[str], typer.Argument(metavar="-- CMD...", help="The command and its arguments.")],
    *,
    node: options.Node = None,
) -> None:
    """Run a command on a node of a plan's running job (default: the first), and exit with its exit code.

    Without a running job the command runs on a node of the cluster, as slipway ssh enters one.
    """
    from launcher.workflow.run.on_nodes import choose_node, nodes_of

    name = places.plan_name(run)
    with nodes_of(name, with_job(name, Path.cwd(), output.say), os.environ, output.say) as nodes:
        code = nodes.run(choose_node(nodes, node), command)
    raise typer.Exit(code)
