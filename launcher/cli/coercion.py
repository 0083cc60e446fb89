"""Converts arguments of the command line to values, without loading Pydantic.

Typer converts arguments with Pydantic, whose import takes as long as pricing a plan. This module converts flags, text,
paths, numbers and parameters with their own parser; Typer converts the rest.
"""

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import typer

Parser = Callable[[str], Any]


class Plain:
    """Does what Typer's own coercion does for one parameter: a value, or nothing for a word that was not given."""

    def __init__(self, parse: Parser) -> None:
        self.parse = parse

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """The value of a word, or of each of several; a default is one already."""
        if isinstance(value, list | tuple):
            return [self.coerce(word, param, ctx) for word in value]
        if not isinstance(value, str):
            return value
        try:
            return self.parse(value)
        except typer.BadParameter as problem:
            raise typer.BadParameter(problem.message, ctx=ctx, param=param) from problem


def lighten(command: Any) -> None:
    """Give the parameters of a command, and of those below it, their plain coercion where they can have it."""
    for subcommand in _commands(command):
        for parameter in subcommand.params:
            _ease(parameter)
        _ease_help(subcommand)


def _ease(parameter: Any) -> None:
    """Replace the coercion of one parameter; where another version of Typer has none to replace, its own stays."""
    parse = _parser(getattr(parameter, "type_descriptor", None))
    if parse is not None and getattr(parameter, "_runtime_param", parameter) is None:
        parameter._runtime_param = Plain(parse)  # noqa: SLF001 - Typer offers no other way


def _ease_help(command: Any) -> None:
    make = command.get_help_option

    def get_help_option(ctx: Any) -> Any:
        option = make(ctx)
        if option is not None:
            _ease(option)
        return option

    command.get_help_option = get_help_option


def _commands(command: Any) -> Iterator[Any]:
    yield command
    for subcommand in getattr(command, "commands", {}).values():
        yield from _commands(subcommand)


def _parser(descriptor: Any) -> Parser | None:
    """What reads one word of a parameter; None for a kind that is left to Typer."""
    annotation, info = getattr(descriptor, "annotation", None), getattr(descriptor, "parameter_info", None)
    if info is None:
        return None
    if info.parser is not None and not descriptor.is_list:
        return info.parser  # type: ignore[no-any-return]
    if annotation in (bool, str, list[str]):
        # A flag is true, false or not given; no word is ever read for one.
        return str if annotation == list[str] else annotation
    if annotation in (Path, list[Path]) and not (info.exists or info.resolve_path or info.allow_dash):
        return Path
    if annotation in (int, float):
        return lambda word: _number(word, annotation, info.min, info.max)
    return None


def _number(word: str, kind: type[int] | type[float], low: float | None, high: float | None) -> float:
    try:
        value = kind(word)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise typer.BadParameter(f"{word!r} is not a {'whole number' if kind is int else 'number'}.")
    if (low is not None and value < low) or (high is not None and value > high):
        bounds = f"at least {low}" if high is None else f"{low} to {high}"
        raise typer.BadParameter(f"{word} is not in the range: {bounds}.")
    return value
