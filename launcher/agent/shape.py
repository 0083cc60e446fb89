"""Checks JSON values of unknown origin before their use: the one reader of agent and launcher.

Standard library only: the agent's nodes have no other packages.
"""

import difflib
import math
import re
import types
from collections.abc import Callable, Iterable
from dataclasses import MISSING, fields, is_dataclass
from datetime import datetime, timezone
from decimal import Decimal
from enum import Enum
from functools import cache
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")
LARGEST = 10**15
"""Maximum of any number in a document that is read back."""
_DOLLARS = re.compile(r"-?[0-9]{1,15}([.][0-9]{1,30})?")
_Read = Callable[[Any, str], Any]


def read(cls: type[T], data: Any, where: str = "", *, whole: bool = False, exact: bool = False) -> T:
    """A value of a type from parsed JSON, by the types of its fields.

    Dollars (`Decimal`) are text, times ISO text (UTC if they name no zone), enums their values, tuples lists, and
    tuples of pairs objects.

    Args:
        cls: a dataclass, a record or a NamedTuple, whose object has a key for each field, or a type of fields.
        data: the parsed JSON.
        where: the path of the object, for errors.
        whole: every field needs its key, even if the field has a default.
        exact: refuse keys that are not fields, in every object; the outermost may have `schema`.

    Raises:
        ValueError: a key is missing, or a value has another type, is not finite or is too large.

    >>> from typing import NamedTuple
    >>> class Span(NamedTuple):
    ...     low: float
    ...     high: float | None = None
    >>> read(Span, {"low": 1})
    Span(low=1, high=None)
    >>> read(Span, {"low": "1"}, "hours")
    Traceback (most recent call last):
    ValueError: hours.low must be float, got str
    """
    kind: Any = cls
    if exact and isinstance(data, dict):
        data = {key: value for key, value in data.items() if key != "schema" or key in _fields(kind)}
    value: T = _reader(kind, exact=exact)(data, where)
    for name in sorted(_fields(kind).keys() - data.keys()) if whole else ():
        raise ValueError(f"{_path(where, name)} is missing")
    return value


def moment(text: str) -> datetime:
    """An ISO time; UTC if it names no zone.

    Raises:
        ValueError: the text is not an ISO time, or arithmetic with its year would leave the allowed range.
    """
    parsed = datetime.fromisoformat(text)
    if not 1970 <= parsed.year <= 9998:  # noqa: PLR2004 - a zone may take it a day further
        raise ValueError(f"not the time of a run: {text}")
    return parsed if parsed.tzinfo is not None else parsed.replace(tzinfo=timezone.utc)


def amount(text: str | None) -> Decimal | None:
    """Dollars read back; None stays None.

    Raises:
        ValueError: `text` is not an amount of dollars.
    """
    if text is None:
        return None
    if not _DOLLARS.fullmatch(text):
        raise ValueError(f"not an amount of dollars: {text[:60]!r}")
    return Decimal(text)


def _path(where: str, key: str) -> str:
    return f"{where}.{key}".lstrip(".")


def _refuse_other(value: Any, kind: Any, path: str) -> None:
    allowed = (int, float) if kind is float else kind
    if isinstance(value, bool) != (kind is bool) or not isinstance(value, allowed):
        raise ValueError(f"{path or 'it'} must be {kind.__name__}, got {type(value).__name__}")
    if kind in (int, float) and not (math.isfinite(value) and abs(value) <= LARGEST):
        raise ValueError(f"{path or 'it'} is {value:.3g}, out of range (10^15)")


@cache
def _fields(cls: Any) -> dict[str, tuple[Any, bool]]:
    hints = get_type_hints(cls)
    if is_dataclass(cls):
        init_fields = [field for field in fields(cls) if field.init]
        return {
            field.name: (hints[field.name], field.default is not MISSING or field.default_factory is not MISSING)
            for field in init_fields
        }
    return {name: (hints[name], name in cls._field_defaults) for name in cls._fields}


@cache
def _reader(hint: Any, *, exact: bool) -> _Read:
    origin, args = get_origin(hint), get_args(hint)
    if origin is not None:
        return _generic(origin, args, exact=exact)
    if hint is Any:
        return lambda value, _: value
    if is_dataclass(hint) or hasattr(hint, "_fields"):
        return _object(hint, exact=exact)
    return _scalar(hint)


def _generic(origin: Any, args: tuple[Any, ...], *, exact: bool) -> _Read:
    if origin in (Union, types.UnionType):
        return _optional(args, exact=exact)
    if origin is Literal:
        return lambda value, where: _one_of(args, value, where)
    if origin in (tuple, list):
        return _items(origin, args[0], exact=exact)
    return _mapping(_reader(args[1], exact=exact))


def _one_of(allowed: tuple[Any, ...], value: Any, where: str) -> Any:
    if value not in allowed:
        raise ValueError(f"{where or 'it'} must be {' or '.join(map(repr, allowed))}, got {value!r}")
    return value


def _scalar(kind: Any) -> _Read:
    converter: Callable[[Any], Any] | None = None
    for base, make in _FROM_TEXT:
        if issubclass(kind, base):
            converter = kind if make is None else make
    expected = str if converter is not None else kind

    def read_scalar(value: Any, where: str) -> Any:
        _refuse_other(value, expected, where)
        try:
            return value if converter is None else converter(value)
        except ValueError as problem:
            raise ValueError(f"{where or 'it'}: {problem}") from problem

    return read_scalar


_FROM_TEXT: tuple[tuple[type, Callable[[str], Any] | None], ...] = (
    (Enum, None),
    (Decimal, amount),
    (datetime, lambda text: moment(text).astimezone(timezone.utc)),
)


def _optional(args: tuple[Any, ...], *, exact: bool) -> _Read:
    (inner,) = (arg for arg in args if arg is not types.NoneType)
    read_inner = _reader(inner, exact=exact)
    return lambda value, where: None if value is None else read_inner(value, where)


def _mapping(read_value: _Read) -> _Read:
    def read_mapping(value: Any, where: str) -> Any:
        _refuse_other(value, dict, where)
        return {key: read_value(element, _path(where, key)) for key, element in value.items()}

    return read_mapping


def _items(kind: Callable[[Any], Any], item: Any, *, exact: bool) -> _Read:
    if get_origin(item) is tuple:
        read_pairs = _mapping(_reader(get_args(item)[1], exact=exact))
        return lambda value, where: tuple(read_pairs(value, where).items())
    read_item = _reader(item, exact=exact)

    def read_items(value: Any, where: str) -> Any:
        _refuse_other(value, list, where)
        return kind(read_item(element, f"{where}[{index}]") for index, element in enumerate(value))

    return read_items


def _object(cls: Any, *, exact: bool) -> _Read:
    readers = [(name, _reader(hint, exact=exact), has_default) for name, (hint, has_default) in _fields(cls).items()]
    names = _fields(cls).keys()
    # A field with another name in documents of earlier versions has that name in its metadata.
    former = {
        field.name: field.metadata.get("formerly", field.name) for field in (fields(cls) if is_dataclass(cls) else ())
    }

    def read_object(value: Any, where: str) -> Any:
        _refuse_other(value, dict, where)
        for name in sorted(value.keys() - names) if exact else ():
            raise ValueError(f"{_path(where, name)} is unknown{_nearest(name, names)}")
        values = {}
        for name, read_value, has_default in readers:
            key = name if name in value else former.get(name, name)
            if key in value:
                values[name] = read_value(value[key], _path(where, key))
            elif not has_default:
                raise ValueError(f"{_path(where, name)} is missing")
        return cls(**values)

    return read_object


def _nearest(name: str, names: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, names, n=1)
    return f"; did you mean {near[0]!r}" if near else ""
