"""A line of the metrics file: its allowed values, and how others are treated. Agent and launcher read it.

A trainer may write NaN, numbers of 400 digits, or text for a step. Such values must not end a job or spoil a report:
an invalid figure is omitted, and its line is counted.
"""

import math
import re
from typing import Any

from launcher.agent import safe_json

FIGURES = (
    *("tokens", "samples", "epoch", "loss", "seconds", "work_seconds", "memory_gib"),
    *("compile_seconds", "checkpoint_seconds", "upload_seconds"),
)
"""Numbers; `step`, `steps`, `checkpoint_step` and `checkpoint_bytes` are whole numbers of at least 0."""

PARALLEL = ("data", "tensor", "pipeline", "context", "expert")
"""Degrees of parallelism that a trainer may name under `parallel`: whole numbers of at least 1."""
MAX_VERSIONS = 32
"""Maximum entries of `software`: names of the trainer's software, with their versions."""

_INTEGER_KEYS = ("step", "steps", "checkpoint_step", "checkpoint_bytes")
_MAX_INTEGER = 2**63
_MAX_DEGREE = 2**20
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+!~:-]{0,59}")


def figures_in(line: str | bytes) -> tuple[dict[str, int | float], bool]:
    """The figures in one line.

    Returns the usable figures, and whether they are all that a line of metrics should hold.

    >>> figures_in('{"step": 3, "loss": 2.5, "note": "warm"}')
    ({'step': 3, 'loss': 2.5}, True)
    >>> figures_in('{"step": 3, "loss": NaN}'), figures_in("7")
    (({'step': 3}, False), ({}, False))
    """
    document = _document(line)
    if document is None:
        return {}, False
    figures: dict[str, int | float] = {}
    for name in (*_INTEGER_KEYS, *FIGURES):
        value = _count(document.get(name)) if name in _INTEGER_KEYS else _number(document.get(name))
        if value is not None:
            figures[name] = value
    present = {name for name in (*_INTEGER_KEYS, *FIGURES) if document.get(name) is not None}
    fine = _degrees(document.get("parallel"))[1] and _versions(document.get("software"))[1]
    return figures, fine and present == figures.keys()


def setup_in(line: str | bytes) -> tuple[dict[str, int], dict[str, str]]:
    """The degrees of parallelism and the versions of software that one line names; empty if it names none.

    >>> setup_in('{"parallel": {"data": 8, "tensor": 0}, "software": {"torch": "2.9.0+cu130", "mine": 3}}')
    ({'data': 8}, {'torch': '2.9.0+cu130'})
    """
    document = _document(line) or {}
    return _degrees(document.get("parallel"))[0], _versions(document.get("software"))[0]


def versions_of(checked: object) -> dict[str, str]:
    """The valid entries of names with versions, at most as many as a line of metrics may hold."""
    return _versions(checked)[0]


def _document(line: str | bytes) -> dict[str, Any] | None:
    try:
        document = safe_json.loads(line, figures=True)
    except ValueError:
        return None
    return document if isinstance(document, dict) else None


def _degrees(degrees_by_name: object) -> tuple[dict[str, int], bool]:
    if not isinstance(degrees_by_name, dict):
        return {}, degrees_by_name is None
    counted = {name: _count(degrees_by_name.get(name)) for name in PARALLEL}
    degrees = {name: value for name, value in counted.items() if value is not None and 1 <= value <= _MAX_DEGREE}
    return degrees, degrees.keys() == {name for name, value in degrees_by_name.items() if value is not None}


def _versions(value: object) -> tuple[dict[str, str], bool]:
    if not isinstance(value, dict):
        return {}, value is None
    texts = {
        name: version
        for name, version in value.items()
        if isinstance(name, str) and _NAME.fullmatch(name) and isinstance(version, str) and _VERSION.fullmatch(version)
    }
    versions = dict(sorted(texts.items())[:MAX_VERSIONS])
    return versions, versions.keys() == {name for name, version in value.items() if version is not None}


def _number(value: object) -> int | float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if abs(value) < _MAX_INTEGER and math.isfinite(value) else None


def _count(value: object) -> int | None:
    number = _number(value)
    return int(number) if number is not None and number >= 0 and number == int(number) else None
