"""The JSON Schema of `codec.plain`'s output, derived from type hints by the same rules."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from launcher.records.codec import is_pairs

MONEY = {"type": "string", "pattern": r"^-?\d+(\.\d+)?$"}
_SIMPLE: Mapping[Any, dict[str, Any]] = {
    Decimal: MONEY,
    datetime: {"type": "string", "format": "date-time"},
    date: {"type": "string", "format": "date"},
    Path: {"type": "string"},
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    NoneType: {"type": "null"},
    Any: {},
}


def document_schema(name: str, forms: Sequence[type]) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a document of the contract.

    Args:
        name: the value of its key `schema`.
        forms: the type of the document, or of each of its forms.
    """
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:{name.replace('.', ':').replace('/', ':')}",
        "title": name,
        **(_of(forms[0]) if len(forms) == 1 else _any_of(forms)),
    }


def _of(hint: Any) -> dict[str, Any]:
    if hint in _SIMPLE:
        return dict(_SIMPLE[hint])
    return _generic(hint) if get_origin(hint) else _type(hint)


def _any_of(hints: Sequence[Any]) -> dict[str, Any]:
    return {"anyOf": [_of(hint) for hint in hints]}


def _generic(hint: Any) -> dict[str, Any]:
    origin, inside = get_origin(hint), get_args(hint)
    if origin is Literal:
        return {"enum": list(inside)}
    if origin in (Union, UnionType):
        return _any_of(inside)
    if issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": _of(inside[1])}
    if is_pairs(hint):
        return {"type": "object", "additionalProperties": _of(get_args(inside[0])[1])}
    if issubclass(origin, tuple) and inside[-1] is not ...:
        return {"type": "array", "prefixItems": [_of(item) for item in inside]}
    if issubclass(origin, Sequence):
        return {"type": "array", "items": _of(inside[0])}
    raise TypeError(f"no JSON Schema is known of {hint}")


def _type(hint: type) -> dict[str, Any]:
    if issubclass(hint, Enum):
        return {"enum": [member.value for member in hint]}
    if is_dataclass(hint) or hasattr(hint, "_fields"):
        return _description(hint) | _object(hint)
    raise TypeError(f"no JSON Schema is known of {hint}")


def _object(hint: Any) -> dict[str, Any]:
    hints, properties, required = get_type_hints(hint), {}, []
    omitted = {field.name for field in fields(hint) if "omitted" in field.metadata} if is_dataclass(hint) else ()
    written = [field.name for field in fields(hint) if "internal" not in field.metadata] if is_dataclass(hint) else ()
    for name in written or hint._fields:
        key, inner = name.rstrip("_"), hints[name]
        if name in omitted:
            # Without a value the key is left out, so it is never null.
            inner = next(option for option in get_args(inner) if option is not NoneType)
        else:
            required.append(key)
        properties[key] = _of(inner)
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _description(owner: Any) -> dict[str, str]:
    """The docstring of a model's class as a description; empty for a class whose docstring Python generates."""
    owner = getattr(owner, "__described__", owner)
    if owner is None:
        return {}
    text = " ".join((owner.__doc__ or "").split())
    return {} if not text or text.startswith(f"{owner.__name__}(") else {"description": text}
