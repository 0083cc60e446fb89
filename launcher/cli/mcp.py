"""`slipway mcp`: Slipway's commands as tools of an agent."""

import os
import sys
from pathlib import Path

import typer

from launcher.model.distribution import install_hint
from launcher.model.errors import ImpossibleError


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("mcp")(mcp)


def mcp() -> None:
    """Serve Slipway's commands to an agent over the Model Context Protocol, on standard input and output.

    The agent reads plans below this folder, prices, runs and costs. It launches, deploys and removes only with an
    approval that a person made in a terminal (slipway approve). Needs the extra [mcp].
    """
    try:
        import mcp_types  # noqa: F401 - whether the extra is installed
    except ModuleNotFoundError as missing:
        raise ImpossibleError("slipway mcp needs the Python SDK of the protocol", hint=install_hint("mcp")) from missing
    from importlib.metadata import version

    from launcher.mcp_server.server import serve
    from launcher.model.distribution import DISTRIBUTION

    if sys.stdin.isatty():
        typer.echo("waiting for a client on standard input; Ctrl-C ends", err=True)
    serve(Path.cwd(), dict(os.environ), version(DISTRIBUTION))
