"""Values of the model and documents as the contract's JSON, by one rule for all of them."""

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from datetime import date
from decimal import Decimal
from enum import Enum
from functools import cache
from operator import attrgetter
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin

Json = dict[str, Any]
_PLAIN = frozenset((str, int, float, bool, type(None)))


def plain(value: Any) -> Any:
    """A value as JSON: records by their fields, dollars as text, enums by their values, times in ISO form.

    Raises:
        TypeError: a value has no JSON form.

    >>> plain({"usd": Decimal("55.0400"), "on": date(2026, 11, 23), "names": ("a", "b")})
    {'usd': '55.04', 'on': '2026-11-23', 'names': ['a', 'b']}
    """
    kind: Any = type(value)
    return value if kind in _PLAIN else _writer(kind)(value)


def as_json(document: Any) -> Json:
    """A document as JSON."""
    written: Json = plain(document)
    return written


@cache
def _writer(kind: Any) -> Callable[[Any], Any]:
    if is_dataclass(kind) or hasattr(kind, "_fields"):
        return _object_writer(kind)
    for base, write in _WRITERS:
        if issubclass(kind, base):
            return write
    raise TypeError(f"{kind.__name__} has no form in the JSON of the contract")


def is_pairs(hint: Any) -> bool:
    """Whether a field has pairs of a text and a value, which are an object in JSON, as in `agent.shape`."""
    options = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    return any(get_origin(option) is tuple and get_origin(get_args(option)[0]) is tuple for option in options)


def _object_writer(kind: Any) -> Callable[[Any], Json]:
    every = [field for field in fields(kind) if "internal" not in field.metadata] if is_dataclass(kind) else ()
    hints = {field.name: field.type for field in every} or kind.__annotations__
    # A key that is a word of Python has an underscore behind it as the name of a field.
    getters = [(name.rstrip("_"), attrgetter(name), is_pairs(hint)) for name, hint in hints.items()]
    omitted = frozenset(field.name for field in every if "omitted" in field.metadata)

    def write(value: Any) -> Json:
        document = {}
        for key, get, pairs in getters:
            item = get(value)
            kind: Any = type(item)
            # Most are plain already, and there are a hundred thousand runs in a long ledger.
            if kind not in _PLAIN:
                document[key] = plain(dict(item)) if pairs else _writer(kind)(item)
            elif item is not None or key not in omitted:
                document[key] = item
        return document

    return write


def money(amount: Decimal | None) -> str | None:
    """Dollars in the contract's format: a plain decimal string without an exponent.

    >>> money(Decimal("55.0400")), money(Decimal("1E+3")), money(Decimal("0.00"))
    ('55.04', '1000', '0')
    """
    if amount is None:
        return None
    text = format(amount, "f")
    return (text.rstrip("0").rstrip(".") if "." in text else text) or "0"


_WRITERS: tuple[tuple[type, Callable[[Any], Any]], ...] = (
    (Decimal, money),
    (Enum, attrgetter("_value_")),
    (date, lambda value: value.isoformat()),
    (Path, str),
    (Mapping, lambda value: {key: plain(item) for key, item in value.items()}),
    (list, lambda value: [plain(item) for item in value]),
    (tuple, lambda value: [plain(item) for item in value]),
)
"""Writers of values that are no records; a datetime is a date, and writes its own form."""
