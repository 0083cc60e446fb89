"""Asking before something happens."""

import sys

import typer

from launcher.cli.live import SCREEN
from launcher.model.errors import DeclinedError, InterruptedAtQuestionError, UnreadableInputError


def refuse_without_terminal(what: str, *, yes: bool, flags: str = "--yes") -> None:
    """Refuse before any work where nobody could be asked afterwards.

    Args:
        what: what would be asked, as a verb.
        yes: whether everything that would be asked is answered already.
        flags: what answers it on the command line.

    Raises:
        UnreadableInputError: there is no terminal and no answer.
    """
    if not yes and not sys.stdin.isatty():
        raise UnreadableInputError(f"cannot ask whether to {what}: no terminal", hint=f"add {flags}")


def confirm(what: str, *, yes: bool) -> None:
    """Ask; without a terminal there is nobody to ask.

    Raises:
        UnreadableInputError: there is no terminal and no --yes.
        DeclinedError: the answer is no.
        InterruptedAtQuestionError: there was none.
    """
    if yes:
        return
    refuse_without_terminal(what, yes=yes)
    try:
        with SCREEN.aside():
            agreed = typer.confirm(f"{what}?", err=True)
    except typer.Abort as interrupted:
        raise InterruptedAtQuestionError from interrupted
    if not agreed:
        raise DeclinedError("nothing was done")


def confirm_by_name(what: str, name: str, *, given: str | None) -> None:
    """Have a name typed before something that cannot be undone; --yes does not answer this.

    Args:
        what: what would be done, as a verb.
        name: what has to be typed.
        given: what the command line says already.

    Raises:
        UnreadableInputError: another name was given, or there is nobody to ask.
    """
    if given is None:
        if not sys.stdin.isatty():
            raise UnreadableInputError(f"cannot ask whether to {what}: no terminal", hint=f"add --confirm {name}")
        given = str(typer.prompt(f"type {name} to {what}", err=True))
    if given != name:
        raise UnreadableInputError(f"not confirmed: got {given!r}, expected {name!r}; nothing was removed")
