"""Values of the model as the contract's JSON, by one rule for all of them."""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import date
from decimal import Decimal
from enum import Enum
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import Any

Json = dict[str, Any]
Keys = Mapping[type, str]
"""The keys of an object of a type, separated by blanks, if they differ from its fields: "key" or "key=attribute"."""
Getters = tuple[tuple[str, Callable[[Any], Any]], ...]
_PLAIN = frozenset((str, int, float, bool, type(None)))


def plain(value: Any, keys: Keys | None = None) -> Any:
    """A value as JSON: records by their fields, dollars as text, enums by their values, times in ISO form.

    `keys`: the objects whose keys differ from the fields of their records.

    Raises:
        TypeError: a value has no JSON form.

    >>> plain({"usd": Decimal("55.0400"), "on": date(2026, 11, 23), "names": ("a", "b")})
    {'usd': '55.04', 'on': '2026-11-23', 'names': ['a', 'b']}
    """
    kind: Any = type(value)
    if kind in _PLAIN:
        return value
    if keys is not None and kind in keys:
        return _object(value, _chosen(keys[kind]), keys)
    return _writer(kind)(value, keys)


def as_json(document: Any) -> Json:
    """A document as JSON."""
    written: Json = plain(document)
    return written


def picked(value: Any, names: str) -> Json:
    """An object with some attributes of a value: "key" or "key=attribute", separated by blanks."""
    return _object(value, _chosen(names), None)


def json_of(values: Mapping[str, Any], keys: Keys | None = None) -> Json:
    """An object of the contract, with values converted to JSON."""
    return {key: plain(value, keys) for key, value in values.items()}


def _object(value: Any, getters: Getters, keys: Keys | None, omitted: Container[str] = ()) -> Json:
    document = {}
    for key, get in getters:
        item = get(value)
        if item is None and key in omitted:
            continue
        # Most are plain already, and there are a hundred thousand runs in a long ledger.
        document[key] = item if type(item) in _PLAIN else plain(item, keys)
    return document


@cache
def _chosen(names: str) -> Getters:
    pairs = (word.partition("=") for word in names.split())
    return tuple((key, attrgetter(name or key)) for key, _, name in pairs)


@cache
def _writer(kind: Any) -> Callable[[Any, Keys | None], Any]:
    every = fields(kind) if is_dataclass(kind) else ()
    names = [field.name for field in every] or getattr(kind, "_fields", None)
    if names:
        # A key that is a word of Python has an underscore behind it as the name of a field.
        getters = tuple((name.rstrip("_"), attrgetter(name)) for name in names)
        left_out = frozenset(field.name for field in every if "omitted" in field.metadata)
        return lambda value, keys: _object(value, getters, keys, left_out)
    for base, write in _WRITERS:
        if issubclass(kind, base):
            return write
    raise TypeError(f"{kind.__name__} has no form in the JSON of the contract")


def named(rows: Iterable[Sequence[Any]], *names: str) -> list[Json]:
    """Tuples as objects with these keys.

    >>> named([("eu-west-1", "access denied")], "region", "reason")
    [{'region': 'eu-west-1', 'reason': 'access denied'}]
    """
    return [dict(zip(names, row, strict=True)) for row in rows]


def money(amount: Decimal | None) -> str | None:
    """Dollars in the contract's format: a plain decimal string without an exponent.

    >>> money(Decimal("55.0400")), money(Decimal("1E+3")), money(Decimal("0.00"))
    ('55.04', '1000', '0')
    """
    if amount is None:
        return None
    text = format(amount, "f")
    return (text.rstrip("0").rstrip(".") if "." in text else text) or "0"


_WRITERS: tuple[tuple[type, Callable[[Any, Keys | None], Any]], ...] = (
    (Decimal, lambda value, _: money(value)),
    (Enum, lambda value, _: value.value),
    (date, lambda value, _: value.isoformat()),
    (Path, lambda value, _: str(value)),
    (Mapping, json_of),
    (list, lambda value, keys: [plain(item, keys) for item in value]),
    (tuple, lambda value, keys: [plain(item, keys) for item in value]),
)
"""Writers of values that are no records; a datetime is a date, and writes its own form."""
