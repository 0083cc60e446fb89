"""Validation with the structural schema of a custom kind: types, bounds, unknown fields, and the rules in CEL.

The messages are those of the API server (compared with apiextensions-apiserver 0.36.4), with strict field validation:
unknown fields are refused, not dropped silently.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from launcher.sandbox.kubernetes import cel_rules
from launcher.sandbox.kubernetes.kinds import POD_TEMPLATE

Cause = tuple[str, str]
_UNKNOWN = "x-kubernetes-preserve-unknown-fields"
_TYPES: dict[str, type | tuple[type, ...]] = {
    "array": list,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
    "object": dict,
    "string": str,
}


def unknown_fields(schema: Mapping[str, Any], value: Any, path: str = "") -> Iterator[str]:
    """The paths of fields that a schema does not define."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from unknown_fields(schema.get("items", {}), item, f"{path}[{index}]")
    if not isinstance(value, dict) or schema.get(_UNKNOWN) or schema.get(POD_TEMPLATE):
        return
    named, free = schema.get("properties", {}), schema.get("additionalProperties")
    for key, inner in value.items():
        below = f"{path}.{key}" if path else key
        if not path and key in ("apiVersion", "kind", "metadata"):
            continue
        if key in named:
            yield from unknown_fields(named[key], inner, below)
        elif isinstance(free, dict):
            yield from unknown_fields(free, inner, below)
        else:
            yield below


def broken_rules(
    schema: Mapping[str, Any], value: Any, old: Any, judge_template: Callable[[Any], list[Cause]], path: str = ""
) -> Iterator[Cause]:
    """Problems of a value."""
    if value is None:
        return
    if schema.get(POD_TEMPLATE):
        yield from ((f"{path}.{field}" if field else path, text) for field, text in judge_template(value))
        return
    wrong = _type_problem(schema, value)
    if wrong:
        yield (
            path,
            f"Invalid value: {_value_text(value)}: {path} in body must be of type {wrong}: {_value_text(type(value))}",
        )
        return
    yield from _bounds(schema, value, path)
    yield from cel_rules.broken_rules(schema, value, old, path, _kind_of(value))
    if isinstance(value, dict):
        yield from ((f"{path}.{name}", "Required value") for name in schema.get("required", ()) if name not in value)
        named, free = schema.get("properties", {}), schema.get("additionalProperties")
        for key, field_value in value.items():
            inner = named.get(key, free if isinstance(free, dict) else None)
            before = old.get(key) if isinstance(old, dict) else None
            if inner is not None:
                yield from broken_rules(inner, field_value, before, judge_template, f"{path}.{key}" if path else key)
    if isinstance(value, list) and "items" in schema:
        for index, (item, before) in enumerate(zip(value, cel_rules.pair_items(schema, value, old), strict=True)):
            yield from broken_rules(schema["items"], item, before, judge_template, f"{path}[{index}]")


def with_defaults(schema: Mapping[str, Any], value: Any) -> Any:
    """A value with the schema's defaults, which the server adds before the validation."""
    if isinstance(value, list):
        return [with_defaults(schema.get("items", {}), item) for item in value]
    if not isinstance(value, dict):
        return value
    named, free = schema.get("properties", {}), schema.get("additionalProperties")
    inner = {key: named.get(key, free if isinstance(free, dict) else {}) for key in value}
    complete = {key: with_defaults(inner[key], item) for key, item in value.items()}
    defaults = {key: row["default"] for key, row in named.items() if "default" in row and key not in value}
    return {**defaults, **complete}


def _type_problem(schema: Mapping[str, Any], value: Any) -> str | None:
    expected = schema.get("type")
    if schema.get("x-kubernetes-int-or-string"):
        return None if isinstance(value, int | str) and not isinstance(value, bool) else "integer or string"
    if expected is None:
        return None
    fits = isinstance(value, _TYPES[expected]) and (expected == "boolean" or not isinstance(value, bool))
    return None if fits else str(expected)


def _bounds(schema: Mapping[str, Any], value: Any, path: str) -> Iterator[Cause]:
    if "enum" in schema and value not in schema["enum"]:
        allowed = ", ".join(f'"{value_allowed}"' for value_allowed in schema["enum"])
        yield path, f"Unsupported value: {_value_text(value)}: supported values: {allowed}"
    if isinstance(value, str):
        if "pattern" in schema and not re.search(schema["pattern"], value):
            yield path, f"Invalid value: {_value_text(value)}: {path} in body should match '{schema['pattern']}'"
        if len(value) > schema.get("maxLength", len(value)):
            yield path, f"Too long: may not be more than {schema['maxLength']} bytes"
    yield from _limits(schema, value, path)


def _limits(schema: Mapping[str, Any], value: Any, path: str) -> Iterator[Cause]:
    if isinstance(value, int | float) and not isinstance(value, bool):
        if value < schema.get("minimum", value):
            yield path, f"Invalid value: {value}: {path} in body should be greater than or equal to {schema['minimum']}"
        if value > schema.get("maximum", value):
            yield path, f"Invalid value: {value}: {path} in body should be less than or equal to {schema['maximum']}"
    if isinstance(value, list):
        if len(value) < schema.get("minItems", 0):
            yield path, f"Invalid value: {len(value)}: {path} in body should have at least {schema['minItems']} items"
        if len(value) > schema.get("maxItems", len(value)):
            yield path, f"Too many: {len(value)}: must have at most {schema['maxItems']} items"


def _kind_of(value: Any) -> str:
    return next((name for name, type_ in _TYPES.items() if type_ is type(value)), type(value).__name__)


def _value_text(value: Any) -> str:
    if isinstance(value, type):
        return f'"{next((name for name, type_ in _TYPES.items() if type_ is value), value.__name__)}"'
    if isinstance(value, dict | list):
        return '"object"' if isinstance(value, dict) else '"array"'
    return f'"{value}"' if isinstance(value, str) else str(value).lower()
