"""Validates a request against the API's model in botocore, which itself checks only types and required members.

This module checks enums, patterns, and minimum and maximum lengths and numbers.
"""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from launcher.aws.session import bare_session

_NUMBERS: Mapping[str, type | tuple[type, ...]] = {"integer": int, "long": int, "float": (int, float)}
_KINDS: Mapping[str, type | tuple[type, ...]] = {**_NUMBERS, "double": (int, float), "boolean": bool, "string": str}


@lru_cache
def _pattern(text: str) -> re.Pattern[str] | None:
    """A pattern, with Java's Unicode classes replaced by the nearest ones of Python; None if Python cannot parse it."""
    for java, python in (("\\p{L}", r"\w"), ("\\p{Z}", r"\s"), ("\\p{N}", r"\d")):
        text = text.replace(java, python)
    try:
        return re.compile(text)
    except re.error:
        return None


@lru_cache
def _model(service: str) -> Any:
    return bare_session().get_service_model(service)


@lru_cache
def _members(service: str, operations: tuple[str, ...]) -> dict[str, Any]:
    """The members of the requests of several operations; the first operation takes precedence."""
    model, members = _model(service), {}
    for operation in reversed(operations):
        members.update(model.operation_model(operation).input_shape.members)
    return members


def complaints(service: str, operations: tuple[str, ...], request: Mapping[str, Any]) -> list[str]:
    """The errors that the service would report about a request; empty if none.

    Missing members of the request's top level are not checked: CloudFormation generates the names.
    """
    members = _members(service, operations)
    problems = [f"extraneous key [{name}] is not permitted" for name in request if name not in members]
    for name, value in request.items():
        if name in members:
            problems.extend(_against(members[name], value, name))
    return problems


def _against(shape: Any, value: Any, path: str) -> Iterator[str]:
    if shape.type_name == "structure":
        yield from _structure(shape, value, path)
    elif shape.type_name == "list":
        if isinstance(value, list):
            yield from _size(shape, len(value), path)
            for index, item in enumerate(value):
                yield from _against(shape.member, item, f"{path}/{index}")
        else:
            yield f"#/{path}: expected type: array, found: {type(value).__name__}"
    elif shape.type_name == "map":
        yield from _size(shape, len(value), path)
        for key, item in dict(value).items():
            yield from _against(shape.key, key, f"{path}/{key}")
            yield from _against(shape.value, item, f"{path}/{key}")
    elif shape.type_name in _KINDS:
        yield from _scalar(shape, value, path)


def _structure(shape: Any, value: Any, path: str) -> Iterator[str]:
    if not isinstance(value, Mapping):
        yield f"#/{path}: expected type: object, found: {type(value).__name__}"
        return
    for name in shape.required_members:
        if name not in value:
            yield f"#/{path}: required key [{name}] not found"
    for name, item in value.items():
        if name in shape.members:
            yield from _against(shape.members[name], item, f"{path}/{name}")
        else:
            yield f"#/{path}: extraneous key [{name}] is not permitted"


def _scalar(shape: Any, value: Any, path: str) -> Iterator[str]:
    kinds = _KINDS[shape.type_name]
    if not isinstance(value, kinds) or (isinstance(value, bool) and shape.type_name != "boolean"):
        yield f"#/{path}: expected type: {shape.type_name}, found: {type(value).__name__}"
    elif isinstance(value, str):
        yield from _text(shape, value, path)
    elif isinstance(value, int | float) and shape.type_name != "boolean":
        yield from _size(shape, value, path)


def _text(shape: Any, value: str, path: str) -> Iterator[str]:
    if shape.enum and value not in shape.enum:
        yield f"#/{path}: {value} is not a valid enum value"
    pattern = _pattern(shape.metadata.get("pattern", ""))
    if pattern is not None and pattern.pattern and pattern.fullmatch(value) is None:
        yield f"#/{path}: {value!r} does not match pattern {pattern.pattern}"
    yield from _size(shape, len(value), path)


def _size(shape: Any, size: float, path: str) -> Iterator[str]:
    least, most = shape.metadata.get("min"), shape.metadata.get("max")
    if least is not None and size < least:
        yield f"#/{path}: {size} is less than the minimum of {least}"
    if most is not None and size > most:
        yield f"#/{path}: {size} is more than the maximum of {most}"
