"""`slipway skill`: instructions for a coding agent that uses Slipway."""

import typer

from launcher.cli import output


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("skill")(skill)


def skill() -> None:
    """Print instructions for a coding agent (SKILL.md): the commands that spend nothing, and what a person decides.

    Save them where the agent looks for skills, as .claude/skills/slipway/SKILL.md.
    """
    from launcher.catalog.assets import asset

    output.result(asset("templates/agent/SKILL.md").read_text(encoding="utf-8").splitlines())
