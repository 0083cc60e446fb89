"""`slipway config`: what a plan file says with its defaults."""

from typing import Annotated

import typer

from launcher.cli import options, output

Every = Annotated[bool, typer.Option("--all", help="Show the keys with Slipway's own defaults too.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(help="Show a plan with the defaults of its layers.", no_args_is_help=True)
    group.command("show")(options.with_settings(show))
    app.add_typer(group, name="config")


def show(file: options.PlanPath, *, everything: Every = False, json: options.Json = False) -> None:
    """Show every value of a plan, and the file or option that it is from. Makes no AWS call.

    Layers, from the lowest: the organisation's file (SLIPWAY_ORGANISATION_DEFAULTS or /etc/slipway/defaults.yaml), the
    user's (~/.config/slipway/defaults.yaml), the project's (slipway.toml or .slipway/defaults.yaml in the plan's folder
    or above), the file that `extends` names, the plan, --set.
    """
    from launcher import plan_file
    from launcher.answers.config import document, page

    resolved = plan_file.resolve(file, options.SETTINGS.get())
    if json:
        output.document(document(resolved, everything=everything))
    else:
        output.result(page(resolved, output.terminal_width(), everything=everything))
