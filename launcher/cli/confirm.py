"""Asking before something happens."""

import sys

import typer

from launcher.model.errors import UnreadableInputError


def confirm(what: str, *, yes: bool) -> None:
    """Ask; without a terminal there is nobody to ask.

    Raises:
        UnreadableInputError: there is no terminal and no --yes.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise UnreadableInputError(f"nobody can be asked whether to {what}: there is no terminal", hint="add --yes")
    typer.confirm(f"{what}?", abort=True, err=True)
