"""`slipway cdk`: the pinned CDK CLI with Slipway's app, in a checkout and in an installed wheel."""

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("cdk", context_settings={"ignore_unknown_options": True})(cdk)


def cdk(
    words: Annotated[
        list[str], typer.Argument(metavar="-- WORDS...", help="Arguments for cdk, for example diff -c plan=plan.yaml.")
    ],
) -> None:
    """Run the CDK CLI with Slipway's app: slipway cdk -- diff -c plan=plan.yaml. Only -c gate=1 checks the gate.

    Commands that synthesize need -c plan=FILE. They write to cdk.out in this folder, or to the folder of -o.
    """
    from launcher.cdk import by_hand

    by_hand.become(words, Path.cwd())
