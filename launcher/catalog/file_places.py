"""Where keys and values of a plan file or of a file of defaults are: line and column by path."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

import yaml

from launcher.catalog import safe_yaml
from launcher.model.finding import Finding

ML = "ml."
"""The beginning of SageMaker's names of instance types."""
_ODD_NUMBER = r"[-+]?(?:0[xob][\da-fA-F_]+|\d[\d_]*_[\d_.]*|\d[\d.]*[eE][-+]?\d+)"
"""A number that a message about another key shows with other digits; not `8.0`, which 8 of anything could be."""
_TYPE = r"(?<![\w.-])(?!ml\.)[a-z][a-z\d-]*\d[a-z\d-]*\.[a-z\d-]+(?![\w-])"
MAX_PLACES = 20_000
"""Places of a file that are known for messages: aliases of aliases stand for more."""
_TABLE = r"\s*\[\s*([^\[\]]+?)\s*\]"
_KEY = r"(\s*)([A-Za-z0-9_.'\"/ -]+?)\s*="


class FilePlace(NamedTuple):
    """Where a value is in its file: line and column of its key or of itself, from 1; 0 for one of the command line.

    `value` is its node if the file is YAML, `text` what a TOML file has behind its key.
    """

    line: int
    column: int
    value: yaml.Node | None = None
    text: str = ""


def toml_places(text: str) -> dict[str, FilePlace]:
    r"""The keys of a TOML text by their paths; keys inside a value have the place of the value.

    >>> toml_places("[target]\n  region = 'us-east-1'")["target.region"][:2]
    (2, 3)
    """
    places: dict[str, FilePlace] = {}
    table = ""
    for number, line in enumerate(text.splitlines(), 1):
        if (header := re.match(_TABLE, line)) is not None:
            table = _plain(header[1])
            places.setdefault(table, FilePlace(number, 1))
        elif (key := re.match(_KEY, line)) is not None:
            path = f"{table}.{_plain(key[2])}" if table else _plain(key[2])
            text = line[key.end() :].partition("#")[0].strip()
            places.setdefault(path, FilePlace(number, len(key[1]) + 1, text=text))
    return places


def _plain(name: str) -> str:
    return ".".join(part.strip(" '\"") for part in name.split("."))


def children(node: yaml.Node) -> Iterator[tuple[yaml.Node | None, yaml.Node]]:
    """The content of a node: keys with their values, or values alone."""
    if isinstance(node, yaml.MappingNode):
        yield from node.value
    elif isinstance(node, yaml.SequenceNode):
        yield from ((None, child) for child in node.value)


def places_of(node: yaml.Node | None, path: str = "") -> dict[str, FilePlace]:
    """Everything below a node, whose own path is given, by its path in the file: a key, or an item of a list."""
    return dict(islice(_below(node, path), MAX_PLACES))


def _below(node: yaml.Node | None, path: str) -> Iterator[tuple[str, FilePlace]]:
    for index, (key, value) in enumerate(() if node is None else children(node)):
        if key is None:
            where, mark = f"{path}[{index}]", value.start_mark
        else:
            where, mark = f"{path}.{key.value}" if path else str(key.value), key.start_mark
        yield where, FilePlace(mark.line + 1, mark.column + 1, value)
        yield from _below(value, where)


def with_place(finding: Finding, places: Mapping[str, FilePlace]) -> Finding:
    """A finding with the line and column of its path, or of the nearest key above it, and its values as written."""
    path = finding.path
    if finding.line is not None:
        return finding
    finding = as_written(finding, places)
    while path and path not in places:
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
    place = places.get(path)
    return replace(finding, line=place.line, column=place.column) if place is not None and place.line else finding


def as_written(finding: Finding, places: Mapping[str, FilePlace]) -> Finding:
    """A finding that shows the values of its key, and of the keys beside and below it, as the file has them.

    Checks know the value alone: 1000 for `1_000`, 3.1 for `3.10`, and p5.48xlarge for `ml.p5.48xlarge`.
    """
    above = finding.path.rpartition(".")[0]
    message, hint = finding.message, finding.hint
    for path, place in places.items():
        own = path == finding.path or path.startswith(f"{finding.path}[")
        text = (place.text if place.value is None else safe_yaml.plain_text(place.value)) or None
        if text is None or not (own or path.rpartition(".")[0] in {above, finding.path}) or text in message:
            continue
        name = text.removeprefix(ML)
        if own and name != text:
            changed = _replace_number(message, name, text)
            hint = re.sub(_TYPE, rf"{ML}\g<0>", hint) if changed != message else hint
            message = changed
        elif own or re.fullmatch(_ODD_NUMBER, text):
            for shown in _shown_numbers(text):
                message = _replace_number(message, shown, text)
    return replace(finding, message=message, hint=hint)


def _shown_numbers(text: str) -> set[str]:
    """How messages show the number that a file's text is; empty if the text is no number.

    >>> (
    ...     sorted(_shown_numbers("0x400")),
    ...     sorted(_shown_numbers("3.10")),
    ...     sorted(_shown_numbers("1_000")),
    ...     _shown_numbers("yes"),
    ... )
    (['1,024', '1024'], ['3.1'], ['1,000', '1000'], set())
    """
    try:
        value = safe_yaml.loads(text)
    except safe_yaml.YamlError:
        return set()
    if isinstance(value, bool) or not isinstance(value, int | float):
        return set()
    return {form for form in (str(value), f"{value:,}", f"{value:g}") if form != text}


def _replace_number(message: str, shown: str, text: str) -> str:
    return re.sub(rf"(?<![\w.,-]){re.escape(shown)}(?![\w-]|[.,]\w)", lambda _: text, message)
