"""Refuses an option whose value is missing, where the parser would take the next option for the value."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from launcher.model.errors import UnreadableInputError

END = "--"
"""The words after this one are no options of Slipway."""


def refuse_missing_values(command: Any, words: Sequence[str]) -> None:
    """Continue only if no option that needs a value is followed by another option.

    Click takes any next word for the value: `--html --json` would write a file named `--json`.

    Args:
        command: the command of the first words, or a group that contains it.
        words: the words of the command line.

    Raises:
        UnreadableInputError: an option has no value.
    """
    needed = _value_options(command)
    for word, following in pairwise(words):
        if word == END:
            return
        if word in needed and _is_option(following):
            attached = f"{word}=VALUE" if word.startswith("--") else f"{word}VALUE"
            hint = f"{word} VALUE, or {attached} for a value that begins with a dash"
            message = f"{word} needs a value, got the option {following}"
            raise UnreadableInputError(message, hint=hint)
        inner = getattr(command, "commands", {}).get(word)
        if inner is not None:
            command, needed = inner, _value_options(inner)


def _value_options(command: Any) -> set[str]:
    """The names of a command's options that take a value."""
    options = (parameter for parameter in command.params if parameter.param_type_name == "option")
    return {name for option in options if not (option.is_flag or option.count) for name in option.opts}


def _is_option(word: str) -> bool:
    """Whether a word is an option, and neither a negative number nor "-", a standard stream.

    >>> _is_option("--json"), _is_option("-v"), _is_option("-3"), _is_option("-"), _is_option("x")
    (True, True, False, False, False)
    """
    return word.startswith("-") and len(word) > 1 and not word[1].isdigit()
