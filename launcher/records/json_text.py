"""Values as JSON text in half of the time of `json.dumps(plain(value))`, for documents of thousands of rows."""

import json
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from decimal import Decimal
from enum import StrEnum
from functools import lru_cache
from json.encoder import encode_basestring
from math import isfinite
from operator import attrgetter
from types import NoneType
from typing import Any

from launcher.model.finding import Finding
from launcher.model.money import Range
from launcher.model.quote import Gate
from launcher.records.codec import is_pairs, money, plain

RECURRING = (Finding, Gate, Range)
"""Records that are equal in many rows: their text is kept."""
_encode = json.JSONEncoder(ensure_ascii=False).encode
_WRITERS: dict[Any, Callable[[Any], str]] = {
    str: encode_basestring,
    int: repr,
    float: lambda value: repr(value) if isfinite(value) else _encode(value),
    bool: lambda value: "true" if value else "false",
    NoneType: lambda _: "null",
    Decimal: lambda value: f'"{money(value)}"',
    tuple: lambda value: f"[{', '.join([json_text(item) for item in value])}]",
}


def json_text(value: Any) -> str:
    """A value as JSON text, equal to `json.dumps(plain(value), ensure_ascii=False)`.

    >>> json_text((Range(low=0.5, mid=1.0, high=1e22), "ä", None, True, Decimal("5.0"), date(2026, 11, 23), {"n": 1}))
    '[{"low": 0.5, "mid": 1.0, "high": 1e+22}, "ä", null, true, "5", "2026-11-23", {"n": 1}]'
    """
    return (_WRITERS.get(type(value)) or _new_writer(type(value)))(value)


def _new_writer(kind: Any) -> Callable[[Any], str]:
    """The writer of a class that had none yet."""
    if is_dataclass(kind):
        write = _record_writer(kind)
        _WRITERS[kind] = lru_cache(maxsize=4096)(write) if kind in RECURRING else write
    elif issubclass(kind, StrEnum):
        _WRITERS[kind] = encode_basestring
    else:
        _WRITERS[kind] = lambda value: _encode(plain(value))
    return _WRITERS[kind]


def _record_writer(kind: Any) -> Callable[[Any], str]:
    every = [field for field in fields(kind) if "internal" not in field.metadata]
    if len(every) == 1 or any(is_pairs(field.type) for field in every):
        return lambda value: _encode(plain(value))
    read, get = attrgetter(*(field.name for field in every)), _WRITERS.get
    keys = [f"{_encode(field.name.rstrip('_'))}: " for field in every]
    omitted = {f"{key}null" for key, field in zip(keys, every, strict=True) if "omitted" in field.metadata}

    def write(value: Any) -> str:
        items = zip(keys, read(value), strict=True)
        texts = [key + (get(type(item)) or _new_writer(type(item)))(item) for key, item in items]
        return f"{{{', '.join([text for text in texts if text not in omitted] if omitted else texts)}}}"

    return write
