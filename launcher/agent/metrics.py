"""A line of the metrics file: what a trainer may write there, and what is made of anything else. Both sides read it.

A trainer may write whatever it likes: NaN when it diverges, numbers of 400 digits, text where a step should be. None of
that must end a job or spoil what a person is shown, so a figure that is none is left out, and its line is counted.
"""

import json
import math

FIGURES = (
    *("tokens", "epoch", "loss", "seconds", "memory_gib"),
    *("compile_seconds", "checkpoint_seconds", "upload_seconds"),
)
"""Numbers; `step`, `steps`, `checkpoint_step` and `checkpoint_bytes` are whole numbers of at least 0."""

_COUNTS = ("step", "steps", "checkpoint_step", "checkpoint_bytes")
_MOST = 2**63


def figures_in(line: str | bytes) -> tuple[dict[str, int | float], bool]:
    """The figures in one line.

    Returns:
        What can be used of it, and whether that is all that a line of metrics should hold.

    >>> figures_in('{"step": 3, "loss": 2.5, "note": "warm"}')
    ({'step': 3, 'loss': 2.5}, True)
    >>> figures_in('{"step": 3, "loss": NaN}'), figures_in("7")
    (({'step': 3}, False), ({}, False))
    """
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        return {}, False
    if not isinstance(document, dict):
        return {}, False
    found: dict[str, int | float] = {}
    for name in (*_COUNTS, *FIGURES):
        value = _count(document.get(name)) if name in _COUNTS else _number(document.get(name))
        if value is not None:
            found[name] = value
    asked = {name for name in (*_COUNTS, *FIGURES) if document.get(name) is not None}
    return found, asked == found.keys()


def _number(value: object) -> int | float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if abs(value) < _MOST and math.isfinite(value) else None


def _count(value: object) -> int | None:
    number = _number(value)
    return int(number) if number is not None and number >= 0 and number == int(number) else None
