"""Validates the --json output of commands against the JSON Schema that the document names."""

import json
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator, FormatChecker

from launcher.answers.json_schemas import schema_of

ROWS = 5
"""Number of rows validated at the beginning and at the end of a long list."""


def read_document(text: str) -> dict[str, Any]:
    """Parse and validate a printed document.

    Raises:
        AssertionError: the document violates its schema.
    """
    document: dict[str, Any] = json.loads(text)
    kind = document["schema"].removeprefix("slipway.").partition("/")[0]
    wrong = [f"{error.json_path}: {error.message[:300]}" for error in _validator(kind).iter_errors(_shorten(document))]
    assert not wrong, f"slipway schema {kind}: {wrong}"
    return document


@cache
def _validator(kind: str) -> Draft202012Validator:
    return Draft202012Validator(schema_of(kind), format_checker=FormatChecker())


def _shorten(value: Any) -> Any:
    """The value with long lists shortened."""
    if isinstance(value, dict):
        return {key: _shorten(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_shorten(item) for item in (value if len(value) <= 2 * ROWS else value[:ROWS] + value[-ROWS:])]
    return value
