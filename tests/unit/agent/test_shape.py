"""The validating reader of JSON from untrusted sources."""

from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any, Literal, NamedTuple

import pytest

from launcher.agent.shape import read
from launcher.model.record import record


class Colour(StrEnum):
    RED = "red"


class Part(NamedTuple):
    name: str
    hours: float = 0.0


@record
class Whole:
    number: int
    done: bool
    usd: Decimal | None
    at: datetime
    colour: Colour
    parts: tuple[Part, ...]
    tags: dict[str, str]
    degrees: tuple[tuple[str, int], ...] = ()
    rest: dict[str, Any] | None = None
    mode: Literal["fast", "slow"] = "fast"


DOCUMENT = {
    "number": 3,
    "done": True,
    "usd": "55.04",
    "at": "2026-11-23T10:00:00+01:00",
    "colour": "red",
    "parts": [{"name": "a", "hours": 2}, {"name": "b"}],
    "tags": {"team": "x"},
    "degrees": {"tp": 8},
}


def test_every_kind_of_value_is_read():
    assert read(Whole, DOCUMENT) == Whole(
        number=3,
        done=True,
        usd=Decimal("55.04"),
        at=datetime(2026, 11, 23, 9, tzinfo=UTC),
        colour=Colour.RED,
        parts=(Part("a", 2), Part("b")),
        tags={"team": "x"},
        degrees=(("tp", 8),),
    )


@pytest.mark.parametrize(
    "change,reason",
    [
        ({"number": True}, "number must be int, got bool"),
        ({"number": 1.0}, "number must be int, got float"),
        ({"number": 10**20}, r"number is 1e\+20, out of range"),
        ({"done": 1}, "done must be bool, got int"),
        ({"usd": 55}, "usd must be str, got int"),
        ({"usd": "NaN"}, "usd: not an amount of dollars"),
        ({"at": "soon"}, "at: Invalid isoformat string"),
        ({"at": "0001-01-01"}, "at: not the time of a run"),
        ({"colour": "blue"}, "colour: 'blue' is not a valid Colour"),
        ({"parts": {}}, "parts must be list, got dict"),
        ({"parts": [{"hours": 1}]}, r"parts\[0\].name is missing"),
        ({"parts": [{"name": "a", "hours": float("inf")}]}, r"parts\[0\].hours is inf, out of range"),
        ({"tags": {"team": 1}}, "tags.team must be str, got int"),
        ({"degrees": {"tp": "8"}}, "degrees.tp must be int, got str"),
        ({"rest": []}, "rest must be dict, got list"),
        ({"mode": "idle"}, "mode must be 'fast' or 'slow', got 'idle'"),
    ],
)
def test_invalid_value_is_named_with_the_path(change, reason):
    with pytest.raises(ValueError, match=reason):
        read(Whole, DOCUMENT | change)


def test_absent_and_unknown_keys_are_refused_only_if_requested():
    assert read(Part, {"name": "a", "more": 1, "schema": "x"}) == Part("a")
    with pytest.raises(ValueError, match="it must be dict, got list"):
        read(Part, [])
    with pytest.raises(ValueError, match=r"of.hours is missing"):
        read(Part, {"name": "a"}, "of", whole=True)
    with pytest.raises(ValueError, match="more is unknown"):
        read(Part, {"name": "a", "more": 1, "schema": "x"}, exact=True)
