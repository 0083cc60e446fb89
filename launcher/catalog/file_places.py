"""Where keys and values of a plan file or of a file of defaults are: line and column by path."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

import yaml

from launcher.model.finding import Finding


class Place(NamedTuple):
    """Where a value is in its file: line and column of its key or of itself, from 1.

    `value` is its node if the file is YAML, `text` what a TOML file has behind its key.
    """

    line: int
    column: int
    value: yaml.Node | None = None
    text: str = ""


MAX_PLACES = 20_000
"""Places of a file that are known for messages: aliases of aliases stand for more."""
_TABLE = re.compile(r"\s*\[\s*([^\[\]]+?)\s*\]")
_KEY = re.compile(r"(\s*)([A-Za-z0-9_.'\"/ -]+?)\s*=")


def toml_places(text: str) -> dict[str, Place]:
    r"""The keys of a TOML text by their paths; keys inside a value have the place of the value.

    >>> toml_places("[target]\n  region = 'us-east-1'")["target.region"][:2]
    (2, 3)
    """
    places: dict[str, Place] = {}
    table = ""
    for number, line in enumerate(text.splitlines(), 1):
        if (header := _TABLE.match(line)) is not None:
            table = _plain(header[1])
            places.setdefault(table, Place(number, 1))
        elif (key := _KEY.match(line)) is not None:
            path = f"{table}.{_plain(key[2])}" if table else _plain(key[2])
            text = line[key.end() :].partition("#")[0].strip()
            places.setdefault(path, Place(number, len(key[1]) + 1, text=text))
    return places


def _plain(name: str) -> str:
    return ".".join(part.strip(" '\"") for part in name.split("."))


def children(node: yaml.Node) -> Iterator[tuple[yaml.Node | None, yaml.Node]]:
    """The content of a node: keys with their values, or values alone."""
    if isinstance(node, yaml.MappingNode):
        yield from node.value
    elif isinstance(node, yaml.SequenceNode):
        yield from ((None, child) for child in node.value)


def places_of(node: yaml.Node | None) -> dict[str, Place]:
    """Everything below a node, by its path in the file: a key, or an item of a list."""
    return dict(islice(_below(node, ""), MAX_PLACES))


def _below(node: yaml.Node | None, path: str) -> Iterator[tuple[str, Place]]:
    for index, (key, value) in enumerate(() if node is None else children(node)):
        if key is None:
            where, mark = f"{path}[{index}]", value.start_mark
        else:
            where, mark = f"{path}.{key.value}" if path else str(key.value), key.start_mark
        yield where, Place(mark.line + 1, mark.column + 1, value)
        yield from _below(value, where)


def with_place(finding: Finding, places: Mapping[str, Place]) -> Finding:
    """A finding with the line and column of its path, or of the nearest key above it."""
    path = finding.path
    if finding.line is not None:
        return finding
    while path and path not in places:
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
    place = places.get(path)
    return finding if place is None else replace(finding, line=place.line, column=place.column)
