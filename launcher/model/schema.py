"""The JSON Schema of a plan file and the commented file that `init` writes, both derived from the request types."""

import json
from dataclasses import MISSING, Field, fields
from decimal import Decimal
from typing import Any

from launcher.model import kinds
from launcher.model.request import PlanRequest
from launcher.model.workload import ServingWorkload, TrainingWorkload

SCHEMA_ID = "urn:slipway:plan:1"
"""The name of the plan file's schema; it has no address."""
SCHEMA_FILE = "slipway-plan.schema.json"
"""The file name of the schema in a plan file's first line, for editors: `slipway schema` prints the schema."""
LAYERS = {
    "extends": {
        "anyOf": [{"type": "string", "minLength": 1}, {"type": "null"}],
        "description": "file with the keys that this file does not give, relative to this file",
        "default": None,
    },
    "env": {
        "anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": ["object", "null"]}],
        "description": "environment variables that ${NAME} in this file stands for: names, or names with defaults",
        "default": None,
    },
}
"""Keys of a file that are no part of the request: they say where the rest is from."""
CONFIG_DOC = "path of a Hugging Face config.json, relative to the plan file; keys beside it win"
_STARTER = """\
slipway: 1
name: {name}
workload:
  train:
    model: llama-3.1-8b
    tokens_b: 2.0
"""
_SERVING_STARTER = """\
slipway: 1
name: {name}
workload:
  serve:
    model: llama-3.1-8b
    input_tokens: 1500
    output_tokens: 250
    requests_per_s: 2
"""


def json_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a plan file."""
    plan = _object(PlanRequest)
    plan["properties"] |= LAYERS
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": SCHEMA_ID,
        "title": "Slipway plan file",
        **plan,
    }


def _object(owner: type) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    required: list[str] = []
    for field in fields(owner):
        schema = _schema(field.metadata["kind"])
        schema["description"] = field.metadata["doc"]
        if field.default is MISSING and field.default_factory is MISSING:
            required.append(field.name)
        elif not isinstance(field.metadata["kind"], kinds.Section):
            schema["default"] = _default(field)
        properties[field.name] = schema
    result: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    if required:
        result["required"] = required
    return result


def _schema(kind: kinds.Kind) -> dict[str, Any]:  # noqa: C901, PLR0911 - one case a kind
    match kind:
        case kinds.Section():
            schema = _object(kind.of)
            return schema if schema.get("required") else {"anyOf": [schema, {"type": "null"}]}
        case kinds.NameOr():
            stated = _object(kind.of)
            named = {"config": {"type": "string", "minLength": 1, "description": CONFIG_DOC}}
            by_config = {**stated, "properties": {**named, **stated["properties"]}, "required": ["config"]}
            return {"anyOf": [{"type": "string", "minLength": 1}, stated, by_config]}
        case kinds.Nullable():
            return {"anyOf": [_schema(kind.item), {"type": "null"}]}
        case kinds.Auto():
            return {"anyOf": [_schema(kind.item), {"enum": ["auto", None]}]}
        case kinds.AnyOf():
            return {"anyOf": [_schema(kind.item), {"enum": ["any", None]}]}
        case kinds.Open():
            item = _schema(kind.item)
            return {"anyOf": [item, {"type": "array", "items": item, "minItems": 1}, {"enum": ["any", None]}]}
        case kinds.Many():
            length = {} if kind.exactly is None else {"minItems": kind.exactly, "maxItems": kind.exactly}
            listed = {"type": "array", "items": _schema(kind.item), **length}
            return {"anyOf": [listed, _schema(kind.item)]} if kind.command_line else listed
        case kinds.Table():
            names = {"propertyNames": {"pattern": f"^({kind.keys})$"}} if kind.keys else {}
            count = {"maxProperties": kind.max_entries} if kind.max_entries is not None else {}
            return {"type": ["object", "null"], "additionalProperties": _schema(kind.item), **names, **count}
        case kinds.NodeCount():
            whole = {"type": "integer", "minimum": 1, "maximum": 10_000}
            span = {"type": "object", "properties": {"min": whole, "max": whole}, "additionalProperties": False}
            return {"anyOf": [whole, span, {"enum": ["any", None]}]}
        case kinds.Choice():
            return {"enum": [word.value for word in kind.options]}
    return _simple(kind)


def _simple(kind: kinds.Kind) -> dict[str, Any]:
    match kind:
        case kinds.Text(pattern=pattern):
            return {"type": "string", "pattern": f"^({pattern})$"} if pattern else {"type": "string"}
        case kinds.Flag():
            return {"type": "boolean"}
        case kinds.Instant():
            return {"type": "string", "format": "date-time"}
        case kinds.Integer():
            return _bounds("integer", minimum=kind.minimum, maximum=kind.maximum)
        case kinds.Number():
            return _bounds("number", minimum=kind.minimum, exclusiveMinimum=kind.above, maximum=kind.maximum)
        case kinds.Usd():
            return {
                "anyOf": [{"type": "number", "minimum": kind.minimum}, {"type": "string", "pattern": r"^\d+(\.\d+)?$"}]
            }
    raise TypeError(kind)


def _bounds(name: str, **limits: float | None) -> dict[str, Any]:
    return {"type": name, **{key: value for key, value in limits.items() if value is not None}}


def commented_file(name: str, *, serve: bool = False) -> str:
    """A plan file that works unchanged, with every other key as a comment: default and meaning."""
    starter, owner = (_SERVING_STARTER, ServingWorkload) if serve else (_STARTER, TrainingWorkload)
    lines = [f"# yaml-language-server: $schema={SCHEMA_FILE}", starter.format(name=name).rstrip("\n")]
    stated = {"model", "tokens_b"} if not serve else {"model", "input_tokens", "output_tokens", "requests_per_s"}
    written = {"slipway", "name", "workload"}
    lines += _comments(owner, depth=2, without=stated)
    for field in fields(PlanRequest):
        if field.name in written:
            continue
        kind = field.metadata["kind"]
        if not isinstance(kind, kinds.Section):
            lines += ["", f"# {field.metadata['doc']}", f"# {field.name}: {_yaml(_default(field))}"]
            continue
        lines += ["", f"# {field.metadata['doc']}", f"# {field.name}:"]
        lines += [f"# {line}" for line in _comments(kind.of, depth=1, without=set(), mark="")]
    return "\n".join(lines) + "\n"


def _comments(owner: type, *, depth: int, without: set[str], mark: str = "# ") -> list[str]:
    indent = "  " * depth
    lines = []
    for field in fields(owner):
        if field.name in without:
            continue
        entry = f"{field.name}: {_yaml(_default(field))}"
        lines.append(f"{indent}{mark}{entry:<34} # {field.metadata['doc']}{_allowed_values(field)}")
    return lines


def _default(field_: Field[Any]) -> Any:
    """A key's default as JSON."""
    kind, value = field_.metadata["kind"], field_.default
    if isinstance(kind, kinds.Open | kinds.AnyOf | kinds.NodeCount):
        return "any"
    if isinstance(kind, kinds.Auto):
        return "auto"
    if isinstance(kind, kinds.Section | kinds.Table):
        return {}
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, Decimal):
        return int(value) if value == int(value) else str(value)
    return str(value) if isinstance(value, str) else value


def _yaml(value: Any) -> str:
    """A default in YAML."""
    if isinstance(value, list):
        return "[" + ", ".join(value) + "]"
    return value if isinstance(value, str) else json.dumps(value)


def _allowed_values(field_: Field[Any]) -> str:
    """The closed vocabulary of a key, for its comment."""
    kind = field_.metadata["kind"]
    item = getattr(kind, "item", kind)
    return f" ({' | '.join(word.value for word in item.options)})" if isinstance(item, kinds.Choice) else ""
