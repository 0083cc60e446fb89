"""Asking before something happens, and refusing what the gate refuses."""

import sys

import typer

from launcher.model.errors import ImpossibleError, OverBudgetError, SlipwayError, UnpricedError, UnreadableInputError
from launcher.model.quote import Quote

REFUSALS: dict[int, type[SlipwayError]] = {3: OverBudgetError, 4: UnpricedError, 5: ImpossibleError}


def refuse_unless_allowed(quoted: Quote) -> None:
    """Go on only with a quote that the gate allows.

    Raises:
        OverBudgetError, UnpricedError, ImpossibleError: it refuses, with the reason and the smallest way out.
    """
    if not quoted.gate.allowed:
        errors = tuple(each for each in quoted.findings if each.level == "error")
        raise REFUSALS[quoted.gate.exit_code](quoted.gate.reason, hint=quoted.gate.hint, findings=errors)


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
