"""`slipway version`: the version, and the dates of the prices that it knows."""

import typer

from launcher.cli import options, output


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("version")(version)


def version(*, json: options.Json = False) -> None:
    """Print the version, the dates of the prices, and the installed plugins."""
    from launcher.answers import version as answer
    from launcher.workflow.quote.plugins import names

    output.answer(answer, answer.facts(options.price_cache(), names()), json=json)
