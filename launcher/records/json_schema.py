"""The JSON Schema of `codec.plain`'s output, derived from type hints by the same rules."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from functools import cached_property
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from launcher.records.codec import Keys

Shape = dict[str, Any]
"""The keys of an object and the type hint of each; a value may be another shape instead of a hint."""
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
    None: {"type": "null"},
    Any: {},
    object: {},
}


class Some(NamedTuple):
    """A shape whose documents may lack the optional keys."""

    shape: Shape
    optional: Shape


def picked_shape(owner: type, names: str) -> Shape:
    """The shape of `codec.picked`: "key" or "key=attribute", separated by blanks."""
    pairs = (word.partition("=") for word in names.split())
    return {key: _hint(owner, name or key) for key, _, name in pairs}


def document_schema(name: str, shape: Any, forms: Keys) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a document of the contract: `name` is the value of its key `schema`."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:{name.replace('.', ':').replace('/', ':')}",
        "title": name,
        **_of(shape, forms),
    }


def _of(shape: Any, forms: Keys) -> dict[str, Any]:
    """The schema of a shape: an object, a list of one kind, one of several, or a type hint."""
    if isinstance(shape, dict):
        return _object(shape, forms)
    if isinstance(shape, Some):
        return _object({**shape.shape, **shape.optional}, forms) | {"required": list(shape.shape)}
    if isinstance(shape, list):
        return {"type": "array", "items": _of(shape[0], forms)}
    if isinstance(shape, tuple):
        return {"anyOf": [_of(option, forms) for option in shape]}
    return _simple(shape) if shape in _SIMPLE else _generic(shape, forms) if get_origin(shape) else _type(shape, forms)


def _simple(hint: Any) -> dict[str, Any]:
    return dict(_SIMPLE[hint])


def _generic(hint: Any, forms: Keys) -> dict[str, Any]:
    origin, inside = get_origin(hint), get_args(hint)
    if origin is Literal:
        return {"enum": list(inside)}
    if origin in (Union, UnionType):
        return _of(inside, forms)
    if issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": _of(inside[1], forms)}
    if issubclass(origin, tuple) and inside[-1] is not ...:
        return {"type": "array", "prefixItems": [_of(item, forms) for item in inside]}
    if issubclass(origin, Sequence):
        return {"type": "array", "items": _of(inside[0], forms)}
    raise TypeError(f"no JSON Schema is known of {hint}")


def _type(hint: type, forms: Keys) -> dict[str, Any]:
    if issubclass(hint, Enum):
        return {"enum": [member.value for member in hint]}
    if is_dataclass(hint) and hint not in forms:
        return _described(hint) | _record(hint, forms)
    names = forms.get(hint, " ".join(get_type_hints(hint)))
    if not names:
        raise TypeError(f"no JSON Schema is known of {hint}")
    return _described(hint) | _object(picked_shape(hint, names), forms)


def _record(hint: Any, forms: Keys) -> dict[str, Any]:
    hints, shape, required = get_type_hints(hint), {}, []
    for field in fields(hint):
        key, inner = field.name.rstrip("_"), hints[field.name]
        if "omitted" in field.metadata:
            # Without a value the key is left out, so it is never null.
            shape[key] = next(option for option in get_args(inner) if option is not NoneType)
        else:
            shape[key] = inner
            required.append(key)
    return _object(shape, forms) | {"required": required}


def _described(owner: type) -> dict[str, str]:
    """The docstring of a model's class as a description; empty for a class whose docstring Python generates."""
    if not getattr(owner, "__described__", True):
        return {}
    text = " ".join((owner.__doc__ or "").split())
    return {} if not text or text.startswith(f"{owner.__name__}(") else {"description": text}


def _object(shape: Shape, forms: Keys) -> dict[str, Any]:
    properties = {key: _of(hint, forms) for key, hint in shape.items()}
    return {"type": "object", "properties": properties, "required": list(shape), "additionalProperties": False}


def _hint(owner: Any, path: str) -> Any:
    first, _, rest = path.partition(".")
    attribute = next((vars(base)[first] for base in owner.__mro__ if first in vars(base)), None)
    if isinstance(attribute, property | cached_property):
        hint = get_type_hints(attribute.fget if isinstance(attribute, property) else attribute.func).get("return")
    else:
        hint = get_type_hints(owner).get(first)
    if hint is None:
        raise TypeError(f"{owner.__name__} says nothing of {first}")
    return _hint(hint, rest) if rest else hint
