"""`slipway config show`, slipway.config/1: the resolved plan, and where each of its values is from."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from launcher.answers.lines import fold
from launcher.answers.table import Column, render
from launcher.model.document import document as plan_document
from launcher.model.money import Assumption
from launcher.plan_file import ResolvedPlan
from launcher.plan_layers import PLAN
from launcher.records.codec import Json, as_json
from launcher.records.document import json_object

Row: TypeAlias = tuple[str, Any, str]
"""A key, its value and its origin."""
DEFAULT = "default"
SECRET = ("run.env.", "run.secrets.")
"""Tables whose values are not printed: tokens are put there by mistake."""


@json_object
class Setting:
    """A key of the plan file with its value and the file or option that it is from."""

    key: str
    value: Any
    origin: str


@json_object
class ConfigDocument:
    """A resolved plan: its layers, the lowest first, and its values."""

    schema: Literal["slipway.config/1"] = "slipway.config/1"
    name: str
    files: tuple[str, ...]
    settings: tuple[Setting, ...]


def document(resolved: ResolvedPlan, *, everything: bool) -> Json:
    """slipway.config/1; `everything` has the keys with Slipway's own defaults too."""
    rows = _shown_rows(resolved, everything=everything)
    settings = tuple(Setting(key=key, value=value, origin=origin) for key, value, origin in rows)
    return as_json(ConfigDocument(name=resolved.request.name, files=resolved.files, settings=settings))


def page(resolved: ResolvedPlan, width: int, *, everything: bool) -> list[str]:
    """The layers, and a table of keys with their values and origins."""
    columns: list[Column[Row]] = [
        Column("key", lambda row: row[0]),
        Column("value", lambda row: text_of(row[1]), shrinks=True),
        Column("from", lambda row: _layer(row[2])),
    ]
    layers = " < ".join(resolved.files)
    rows = _shown_rows(resolved, everything=everything)
    return ["", *fold(f"  {layers}", width), "", *render(columns, rows, width)]


def _layer(origin: str) -> str:
    """An origin without the path of its file: the line above the table has it."""
    name, file, _ = origin.partition(" file ")
    return f"{name}{file.rstrip()}"


def text_of(value: Any) -> str:
    """A value as it would be written in the file, in one line; keys of a mapping that are not given are left out."""
    if isinstance(value, list):
        return f"[{', '.join(text_of(item) for item in value)}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key}: {text_of(item)}' for key, item in value.items() if item is not None)}}}"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)


def origins(resolved: ResolvedPlan) -> tuple[Assumption, ...]:
    """The values that are not from the plan itself, as assumptions of its quote."""
    given = [row for row in _rows(resolved) if row[2] not in (PLAN, DEFAULT)]
    return tuple(Assumption(name=key, value=text_of(value), unit="", source=origin) for key, value, origin in given)


def origin_lines(assumptions: Sequence[Assumption], width: int) -> list[str]:
    """The same in a sentence for each origin, for the first screen of a quote."""
    by_origin: dict[str, list[str]] = {}
    for assumption in assumptions:
        by_origin.setdefault(assumption.source, []).append(f"{assumption.name} {assumption.value}")
    return [piece for origin, named in by_origin.items() for piece in fold(f"  {origin}: {', '.join(named)}", width)]


def _shown_rows(resolved: ResolvedPlan, *, everything: bool) -> list[Row]:
    return [row for row in _rows(resolved) if everything or row[2] != DEFAULT]


def _rows(resolved: ResolvedPlan) -> Iterator[Row]:
    for key, value in _leaves(plan_document(resolved.request), "", resolved.sources):
        yield key, "(not shown)" if key.startswith(SECRET) else value, resolved.sources.get(key, DEFAULT)


def _leaves(data: Mapping[str, Any], path: str, sources: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
    """Every key, in the order of the file; a mapping that a layer gave as a whole is one value."""
    for key, value in data.items():
        where = f"{path}.{key}" if path else str(key)
        if isinstance(value, Mapping) and value and where not in sources:
            yield from _leaves(value, where, sources)
        else:
            yield where, value
