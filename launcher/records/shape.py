"""The shape of a JSON document that is read back: what somebody else may have written is looked at before its use."""

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

LARGEST = 10**15
"""Of any number in a document that is read back."""
_DOLLARS = re.compile(r"-?[0-9]{1,15}([.][0-9]{1,30})?")


def hold(value: Any, form: Any, path: str = "") -> None:
    """Hold a value to a form.

    Args:
        value: what was read.
        form: a type (`float` takes whole numbers too), a tuple of what is allowed, with None, a list with the form of
            every item, or a mapping of the keys that have to be there.
        path: where the value is.

    Raises:
        ValueError: it has another form, or a number is not finite or too large.
    """
    if isinstance(form, tuple):
        if value is not None or None not in form:
            hold(value, next(each for each in form if each is not None), path)
        return
    kind = dict if isinstance(form, Mapping) else list if isinstance(form, list) else form
    if not _is_of(value, kind):
        raise ValueError(f"{path or 'it'} must be {kind.__name__}, got {type(value).__name__}")
    if isinstance(form, Mapping):
        for key, inner in form.items():
            where = f"{path}.{key}".lstrip(".")
            if key not in value:
                raise ValueError(f"{where} is missing")
            hold(value[key], inner, where)
    elif isinstance(form, list):
        for index, each in enumerate(value):
            hold(each, form[0], f"{path}[{index}]")


def _is_of(value: Any, kind: type) -> bool:
    """Whether a value is of a kind; numbers are finite and no larger than anything that is counted here."""
    if kind is bool or isinstance(value, bool):
        return kind is bool and isinstance(value, bool)
    if kind in (int, float):
        allowed = (int,) if kind is int else (int, float)
        return isinstance(value, allowed) and abs(value) <= LARGEST and math.isfinite(value)
    return isinstance(value, kind)


def moment(text: str) -> datetime:
    """An ISO time; UTC where it names no zone.

    Raises:
        ValueError: it is none, or of a year that arithmetic with it would leave.
    """
    found = datetime.fromisoformat(text)
    if not 1970 <= found.year <= 9998:  # noqa: PLR2004 - a zone may take it a day further
        raise ValueError(f"no time of a run: {text}")
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def amount(text: str | None) -> Decimal | None:
    """Dollars read back; None stays None.

    Raises:
        ValueError: it is no amount.
    """
    if text is None:
        return None
    if not _DOLLARS.fullmatch(text):
        raise ValueError(f"no amount of dollars: {text[:60]!r}")
    return Decimal(text)
