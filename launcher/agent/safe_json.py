"""The only reader of JSON from other writers: it returns a value of bounded depth, or raises a `JsonError`.

`json.loads` is refused everywhere else (`banned-api` in pyproject.toml): it raises RecursionError for a deep text,
reads a long number as an integer that no float can hold, and accepts NaN, which is not JSON.
"""

import json
import math
from pathlib import Path
from typing import Any, NoReturn

MAX_BYTES = 64 << 20
MAX_DEPTH = 100
"""Maximum nesting of lists and mappings. A CRD of Kubernetes has 40; recursive functions process the value, and
Python allows 1,000 calls."""
_MAX_DIGITS = 40
_TOO_DEEP = f"it has more than {MAX_DEPTH} nested lists and mappings"


class JsonError(ValueError):
    """A text that is not JSON, or JSON beyond the limits."""


def loads(text: str | bytes, *, most_bytes: int = MAX_BYTES, figures: bool = False) -> Any:
    """The value of a JSON text.

    Args:
        text: JSON; bytes are UTF-8.
        most_bytes: Its maximum length (characters, of a str).
        figures: Accept NaN, infinities and numbers of any length, as programs write them for measurements; a whole
            number beyond 40 digits becomes an infinity.

    Raises:
        JsonError: the text is not JSON, or is too long or too deep.

    >>> loads('{"a": [1, 2.5]}'), loads("[NaN]", figures=True)
    ({'a': [1, 2.5]}, [nan])
    """
    if len(text) > most_bytes:
        raise JsonError(f"it is longer than {most_bytes:,} bytes")
    try:
        text_form = text if isinstance(text, str) else text.decode("utf-8-sig")
        value = (_FIGURES if figures else _STRICT).decode(text_form)
    except (ValueError, RecursionError) as error:
        raise _error(error) from error
    _hold_depth(value, text_form)
    return value


def load(path: Path, *, most_bytes: int = MAX_BYTES) -> Any:
    """The value in a JSON file."""
    with path.open("rb") as file:
        return loads(file.read(most_bytes + 1), most_bytes=most_bytes)


def value_at(text: str, at: int) -> tuple[Any, int]:
    """The value that begins at an index of a text, and the index after it.

    Raises:
        JsonError: as for `loads`; also if the text ends before the value.
    """
    try:
        value, end = _STRICT.raw_decode(text, at)
    except (ValueError, RecursionError) as error:
        raise _error(error) from error
    _hold_depth(value, text[at:end])
    return value, end


def _error(error: ValueError | RecursionError) -> JsonError:
    return (
        error if isinstance(error, JsonError) else JsonError(_TOO_DEEP if type(error) is RecursionError else str(error))
    )


def _hold_depth(value: Any, text: str) -> None:
    """Refuse a value with more than `MAX_DEPTH` levels; most texts have fewer brackets than that."""
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for outer in level
            if isinstance(outer, (dict, list))
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, (dict, list))
        ]
        if not level:
            return
    raise JsonError(_TOO_DEEP)


def _refuse(word: str) -> NoReturn:
    raise JsonError(f"{word} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise JsonError(f"the number {text[:_MAX_DIGITS]} is out of range")
    return number


def _integer(text: str) -> int:
    if len(text) > _MAX_DIGITS:
        raise JsonError(f"the number {text[:_MAX_DIGITS]}... has {len(text):,} digits")
    return int(text)


def _integer_or_infinite(text: str) -> int | float:
    return int(text) if len(text) <= _MAX_DIGITS else math.copysign(math.inf, -1.0 if text[0] == "-" else 1.0)


_STRICT = json.JSONDecoder(parse_float=_finite, parse_int=_integer, parse_constant=_refuse)  # noqa: TID251 - here alone
_FIGURES = json.JSONDecoder(parse_int=_integer_or_infinite)  # noqa: TID251 - here alone
