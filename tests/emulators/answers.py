"""Validates the tests' canned answers against botocore's model of the operation, member by member.

Stricter than botocore's own validator: a value outside its enumeration is an error. The validation cannot show whether
AWS would return a value: tests/sandbox/aws/test_recorded_answers.py checks that.
"""

from collections.abc import Iterator
from datetime import datetime
from functools import cache
from typing import Any
from xml.etree.ElementTree import Element, fromstring

import botocore.session
from botocore.model import OperationModel, Shape

NUMBERS = {"integer": int, "long": int, "float": (int, float), "double": (int, float)}


@cache
def operation(service: str, name: str) -> OperationModel:
    """The model of an operation."""
    return botocore.session.get_session().get_service_model(service).operation_model(name)


def check(service: str, name: str, answer: dict[str, Any]) -> None:
    """Fail if an answer, in a client's form or as JSON in transit, is impossible for the operation."""
    check_by_model(operation(service, name), answer)


def check_by_model(model: OperationModel, answer: dict[str, Any]) -> None:
    """`check` with the operation's model."""
    shape = model.output_shape
    body = {key: value for key, value in answer.items() if key != "ResponseMetadata"}
    wrong = list(_wrong(shape, body, model.name)) if shape is not None else [f"{model.name}: {key}" for key in body]
    assert not wrong, f"no answer of {model.name}: {'; '.join(wrong)}"


def _wrong(shape: Shape, value: Any, place: str) -> Iterator[str]:
    kind = shape.type_name
    if kind == "structure":
        if not isinstance(value, dict):
            yield f"{place} is {type(value).__name__}"
            return
        known = {
            **shape.members,
            **{member.serialization.get("name", name): member for name, member in shape.members.items()},
        }
        yield from (f"{place}.{name} is unknown" for name in value if name not in known)
        yield from (f"{place}.{name} is missing" for name in shape.required_members if name not in value)
        for name, item in value.items():
            if name in known:
                yield from _wrong(known[name], item, f"{place}.{name}")
    elif kind == "list":
        if not isinstance(value, list | tuple):
            yield f"{place} is {type(value).__name__}"
            return
        for item in value:
            yield from _wrong(shape.member, item, f"{place}[]")
    elif kind == "map":
        for item in value.values():
            yield from _wrong(shape.value, item, f"{place}{{}}")
    else:
        yield from _wrong_word(shape, value, place)


def _wrong_word(shape: Shape, value: Any, place: str) -> Iterator[str]:
    kind = shape.type_name
    if kind == "string":
        if not isinstance(value, str):
            yield f"{place} is {type(value).__name__}"
        elif shape.enum and value not in shape.enum:
            yield f"{place} is {value}, which its enumeration has not"
    elif kind == "boolean":
        if not isinstance(value, bool):
            yield f"{place} is {value!r}"
    elif kind in NUMBERS:
        if isinstance(value, bool) or not isinstance(value, NUMBERS[kind]):
            yield f"{place} is {value!r}"
    elif kind == "timestamp" and not isinstance(value, datetime | int | float | str):
        yield f"{place} is {value!r}"


def check_xml(service: str, name: str, text: str) -> None:
    """Fail if XML of EC2's or a query protocol has an element that the operation's answer lacks."""
    model = operation(service, name)
    assert model.output_shape is not None
    wrong = list(_unknown(model.output_shape, fromstring(text), name))
    assert not wrong, f"no answer of {name}: {'; '.join(wrong)}"


def _unknown(shape: Shape, element: Element, place: str) -> Iterator[str]:
    if shape.type_name == "list":
        for child in element:
            yield from _unknown(shape.member, child, f"{place}[]")
    elif shape.type_name == "structure":
        known = {member.serialization.get("name", name): member for name, member in shape.members.items()}
        for child in element:
            tag = child.tag.rpartition("}")[2]
            if tag in known:
                yield from _unknown(known[tag], child, f"{place}.{tag}")
            elif tag not in ("requestId", "ResponseMetadata"):
                yield f"{place}.{tag} is unknown"
    else:
        yield from (f"{place} has parts" for _ in list(element)[:1])
        enum_values = [] if shape.type_name != "string" or not shape.enum else shape.enum
        if enum_values and element.text not in enum_values:
            yield f"{place} is {element.text}, which its enumeration has not"
