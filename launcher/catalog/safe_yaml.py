"""The only reader of YAML: values of bounded depth, size and numbers, or a `YamlError`.

`yaml.load` and similar functions are banned everywhere else (`banned-api` in pyproject.toml): deep texts cause a
RecursionError, some wrong tags a KeyError or AttributeError, and nine lines of aliases expand to a billion values,
which stays unnoticed until code iterates over them.
"""

import math
import re
from collections.abc import Callable, Iterator
from typing import Any

import yaml

from launcher.agent.safe_json import MAX_DEPTH

MAX_CHARACTERS = 64 << 20
MAX_VALUES = 1_000_000
"""Limit of one document; each alias counts with all values that it refers to."""
_MAX_DIGITS = 40
_QUOTED = re.compile(r"(?P<before>['\"])(?P<word>[^'\"]{20})[^'\"]+(?P=before)")
"""A long word that PyYAML quotes from the text: 20 characters are shown, since the text may be a key file."""
_WRONG = (yaml.YAMLError, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""PyYAML 6.0.3's exceptions for invalid texts: `!!bool x` is a KeyError, `!!int ""` an IndexError, `!!timestamp x` an
AttributeError, 2026-02-30 a ValueError."""


def plain_text(node: yaml.Node) -> str | None:
    """The text of a single value without quotes; None for any other node."""
    return node.value if isinstance(node, yaml.ScalarNode) and node.style is None else None


def text_of(node: yaml.Node) -> str:
    """The text of a node in one line, with its values as they are written."""
    return str(yaml.serialize(node, width=math.inf, allow_unicode=True)).strip()


def shorten_words(message: str) -> str:
    """A parser's message with at most 20 characters of each word that it quotes from its text."""
    return _QUOTED.sub(r"\g<before>\g<word>...\g<before>", message)


class YamlError(ValueError):
    """A text that is no YAML, or exceeds the bounds; the message has line and column if known."""


def loads(text: str) -> Any:
    """The value of a text with one document; None for an empty text.

    Raises:
        YamlError: the text is no YAML, or exceeds the bounds.
    """
    return parse_yaml(text)[1]


class _Dumper(yaml.SafeDumper):
    """Writes a text of several lines as a block of these lines, so that people can edit a command or a script."""

    def represent_text(self, text: str) -> yaml.ScalarNode:
        return self.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _Dumper.represent_text)


def dumps(data: Any) -> str:
    """The text of a value, for a file that people read: keys in their order, short lists and mappings in one line."""
    return str(yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110, default_flow_style=None))


def documents(text: str) -> list[Any]:
    """The values of all documents of a text."""
    return [value for _, value in _read(text, yaml.SafeLoader, lambda _: None)]


def parse_yaml(
    text: str,
    loader: type[yaml.SafeLoader] = yaml.SafeLoader,
    check: Callable[[yaml.Node], None] = lambda _: None,
) -> tuple[yaml.Node | None, Any]:
    """The node of a text with one document, which has all positions, and its value; None for an empty text.

    Args:
        text: YAML or JSON.
        loader: constructs the values.
        check: is called with the node before the values are constructed; may raise YAMLError.
    """
    parsed_documents = list(_read(text, loader, check))
    if len(parsed_documents) > 1:
        raise YamlError(f"{_at(parsed_documents[1][0].start_mark)}expected one document, got {len(parsed_documents)}")
    return parsed_documents[0] if parsed_documents else (None, None)


def _read(
    text: str, kind: type[yaml.SafeLoader], check: Callable[[yaml.Node], None]
) -> Iterator[tuple[yaml.Node, Any]]:
    if len(text) > MAX_CHARACTERS:
        raise YamlError(f"it is longer than {MAX_CHARACTERS:,} characters")
    try:
        loader = kind(text)
        try:
            while loader.check_node() and (node := loader.get_node()) is not None:
                _count_values(node, {}, 1)
                check(node)
                yield node, loader.construct_document(node)
        finally:
            loader.dispose()
    except _WRONG as problem:
        raise YamlError(_problem_text(problem)) from problem


def _count_values(node: yaml.Node, known: dict[int, int | None], depth: int) -> int:
    """The number of values of a node, including those of its aliases.

    Args:
        node: a node.
        known: the counts of measured nodes, None for a node in progress.
        depth: depth of the node; a repeated node was measured at its first position.
    """
    if id(node) in known:
        count = known[id(node)]
        if count is None:
            raise _refusal("an alias is inside the value it names", node)
        return count
    if depth > MAX_DEPTH:
        raise _refusal(f"more than {MAX_DEPTH} lists and mappings in each other", node)
    if node.tag == "tag:yaml.org,2002:int" and len(node.value) > _MAX_DIGITS:
        raise _refusal(f"a number of {len(node.value):,} digits", node)
    known[id(node)] = None
    count = 1 + sum(_count_values(inner, known, depth + 1) for inner in _inner(node))
    if count > MAX_VALUES:
        raise _refusal(f"its aliases stand for more than {MAX_VALUES:,} values", node)
    known[id(node)] = count
    return count


def _inner(node: yaml.Node) -> Iterator[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield key
            yield value
    elif isinstance(node, yaml.SequenceNode):
        yield from node.value


def _refusal(problem: str, node: yaml.Node) -> yaml.YAMLError:
    return yaml.constructor.ConstructorError(None, None, problem, node.start_mark)


def _problem_text(problem: BaseException) -> str:
    if isinstance(problem, RecursionError):
        return f"more than {MAX_DEPTH} lists and mappings in each other"
    if not isinstance(problem, yaml.YAMLError):
        return f"a value that its tag does not allow: {shorten_words(str(problem))}"
    message = getattr(problem, "problem", None) or str(problem).splitlines()[0]
    message = shorten_words(str(message))
    return f"{_at(getattr(problem, 'problem_mark', None))}{message}"


def _at(mark: yaml.Mark | None) -> str:
    return f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
