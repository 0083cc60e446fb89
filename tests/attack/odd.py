"""Invalid values and texts from a seed, like those from a damaged disk, a hostile neighbour or a mistake."""

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

SURROGATE = "\ud800"
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2**31, 2**63, -(2**64), 10**400, -(10**400), 0.0, -0.0, 1e-320, 1e308),
    *(float("inf"), float("-inf"), float("nan"), "", " ", "0", "-1", "NaN", "Infinity", "1e999", "9" * 400, "0x10"),
    *(SURROGATE, f"a{SURROGATE}b", "\0", "a\nb", "\x1b[2J", "\u202e", "ü" * 300, "x" * 5000, "../../etc/passwd", "/"),
    *("2026-11-20T12:00:00", "2026-13-45", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00+14:00", "null", "[]", "{}"),
    *([], {}, [[]], [None], {"": None}, {"a": {"b": []}}, ["x"] * 50, {"schema": "slipway.plan/1"}),
)


def deep(levels: int) -> Any:
    """Nested lists."""
    value: Any = []
    for _ in range(levels):
        value = [value]
    return value


def changed(chance: random.Random, document: Any, times: int) -> Any:
    """A document with some of its values replaced, removed, duplicated or moved."""
    copied = copy.deepcopy(document)
    for _ in range(times):
        places = list(_places(copied))
        if not places:
            return chance.choice(VALUES)
        holder, key = chance.choice(places)
        kind = chance.random()
        if kind < 0.6:
            holder[key] = copy.deepcopy(chance.choice(VALUES))
        elif kind < 0.75:
            del holder[key]
        elif kind < 0.85:
            other, name = chance.choice(places)
            holder[key] = copy.deepcopy(other[name])
        elif kind < 0.9:
            holder[key] = deep(chance.choice((5, 200)))
        elif isinstance(holder, dict):
            holder[str(key) + chance.choice(("", "_", SURROGATE, "\0", " "))] = holder[key]
        else:
            holder.append(holder[key])
    return copied


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every replaceable value, as its container and its key."""
    if isinstance(value, dict):
        for key in value:
            yield value, key
            yield from _places(value[key])
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield value, index
            yield from _places(item)


def damaged(chance: random.Random, text: str) -> bytes:
    """A text whose bytes were cut, flipped, duplicated or mixed with others."""
    data = bytearray(text.encode("utf-8", errors="surrogatepass"))
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(data) + 1)
        kind = chance.randrange(5)
        if kind == 0:
            del data[at:]
        elif kind == 1 and data:
            data[at % len(data)] ^= 1 << chance.randrange(8)
        elif kind == 2:
            data[at:at] = data[: chance.randrange(200)]
        elif kind == 3:
            data[at:at] = chance.choice(
                (b"\0", b"\xff\xfe", b"\xed\xa0\x80", b"{", b"[", b'"', b"\n", b": ", b"&a *a", b"9" * 300)
            )
        else:
            del data[at : at + chance.randrange(30)]
    return bytes(data)


def text_of(chance: random.Random, document: Any) -> bytes:
    """A document as JSON, including invalid values, sometimes damaged."""
    text = json.dumps(document, ensure_ascii=chance.random() < 0.7, default=str)
    return damaged(chance, text) if chance.random() < 0.2 else text.encode("utf-8", errors="surrogatepass")
