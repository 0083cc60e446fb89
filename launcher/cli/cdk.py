"""`slipway cdk`: the pinned CDK CLI with Slipway's own app, from a checkout and from an installed wheel alike."""

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("cdk", context_settings={"ignore_unknown_options": True})(cdk)


def cdk(
    words: Annotated[
        list[str], typer.Argument(metavar="-- WORDS...", help="What cdk is given, such as diff -c plan=plan.yaml.")
    ],
) -> None:
    """Run the CDK CLI with Slipway's app: slipway cdk -- diff -c plan=plan.yaml. It asks no gate; -c gate=1 does.

    Commands that synthesise need the plan. What they leave goes to cdk.out here, unless -o says where.
    """
    from launcher.cdk import by_hand

    by_hand.become(words, Path.cwd())
