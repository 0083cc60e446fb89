"""The CLI reference equals the help texts of the commands."""

from collections.abc import Callable

from launcher.cli.app import app


def test_cli_reference_equals_golden(golden: Callable[[str, str], None]) -> None:
    from typer.cli import get_docs_for_click
    from typer.main import get_command

    command = get_command(app)
    context = command.make_context("slipway", [], resilient_parsing=True)
    golden("../../docs/cli.md", get_docs_for_click(obj=command, ctx=context))


def test_every_command_and_parameter_has_help() -> None:
    from typer.main import get_command

    commands = getattr(get_command(app), "commands")  # noqa: B009 - typer carries its own click
    assert commands
    for name, command in commands.items():
        assert command.help, name
        for parameter in command.params:
            assert getattr(parameter, "help", None) or parameter.name == "help", f"{name} {parameter.name}"
