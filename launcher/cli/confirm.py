"""Asking before something happens."""

import sys

import typer

from launcher.cli.live import SCREEN
from launcher.model.errors import DeclinedError, InterruptedAtQuestionError, UnreadableInputError
from launcher.model.visible_text import visible


def refuse_without_terminal(action: str, *, yes: bool, flags: str = "--yes") -> None:
    """Refuse before any work if the user cannot confirm later.

    Args:
        action: the action to confirm, as a verb.
        yes: whether the command line answers every question.
        flags: the flags that answer it on the command line.

    Raises:
        UnreadableInputError: standard input is no terminal, and no flag answers.
    """
    if not yes and not sys.stdin.isatty():
        raise UnreadableInputError(f"cannot ask whether to {action}: no terminal", hint=f"add {flags}")


def confirm(action: str, *, yes: bool) -> None:
    """Ask the user for confirmation.

    Raises:
        UnreadableInputError: standard input is no terminal, and --yes is missing.
        DeclinedError: the user answered no.
        InterruptedAtQuestionError: the user interrupted the question.
    """
    if yes:
        return
    refuse_without_terminal(action, yes=yes)
    try:
        with SCREEN.aside():
            agreed = typer.confirm(f"{visible(action)}?", err=True)
    except typer.Abort as interrupted:
        raise InterruptedAtQuestionError from interrupted
    if not agreed:
        raise DeclinedError("nothing was done")


def confirm_by_name(action: str, name: str, *, given: str | None) -> None:
    """Ask for a typed name before an irreversible action; --yes does not answer this question.

    Args:
        action: the action, as a verb.
        name: the name to type.
        given: the name on the command line.

    Raises:
        UnreadableInputError: the name is wrong, or standard input is no terminal.
    """
    if given is None:
        if not sys.stdin.isatty():
            raise UnreadableInputError(f"cannot ask whether to {action}: no terminal", hint=f"add --confirm {name}")
        given = str(typer.prompt(f"type {name} to {action}", err=True))
    if given != name:
        raise UnreadableInputError(f"not confirmed: got {given!r}, expected {name!r}; nothing was done")
