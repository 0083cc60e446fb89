"""One rule converts values to JSON: by their fields."""

import json
from dataclasses import field
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Literal, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.model.enums import Basis
from launcher.model.money import Assumption, Range
from launcher.model.removal import Retained, RetainedKind
from launcher.records.codec import plain
from launcher.records.document import OMITTED, fill_record, json_object
from launcher.records.json_schema import document_schema
from launcher.records.json_text import json_text


def test_record_document_keeps_the_order_of_fields():
    retained = Retained(kind=RetainedKind.LOGS, name="/aws/l", reason="billed", usd_per_month=Decimal("0.2300"))
    assert list(plain(retained).items()) == [
        ("kind", "logs"),
        ("name", "/aws/l"),
        ("reason", "billed"),
        ("gib", None),
        ("usd_per_month", "0.23"),
        ("unpriced", None),
    ]


def test_nested_values_become_plain():
    moment = datetime(2026, 11, 23, 8, tzinfo=UTC)
    value = {"at": moment, "in": [Path("a/b"), (Basis.LISTED, Range(low=1.0, mid=2.0, high=3.0))]}
    spread = {"low": 1.0, "mid": 2.0, "high": 3.0}
    assert plain(value) == {"at": "2026-11-23T08:00:00+00:00", "in": ["a/b", ["listed", spread]]}


@json_object
class Head:
    schema: Literal["slipway.x/1"] = "slipway.x/1"


@json_object
class Part:
    """Not the description of a part."""

    name: str
    for_: str
    spread: Range | None = field(default=None, metadata=OMITTED)


@json_object
class Whole(Part, Head):
    parts: tuple[Part, ...]


class Source(NamedTuple):
    name: str
    spread: Range | None
    more: int = 0


def test_document_of_two_parts_begins_with_the_schema():
    whole = Whole(name="a", for_="b", parts=(Part(name="c", for_="d"),))
    part = {"name": "c", "for": "d"}
    assert list(plain(whole).items()) == [
        ("schema", "slipway.x/1"),
        ("name", "a"),
        ("for", "b"),
        ("parts", [part]),
    ]


def test_omitted_key_is_optional_and_not_null_in_the_schema():
    schema = document_schema("slipway.x/1", [Part])
    assert schema["required"] == ["name", "for"]
    assert schema["properties"]["spread"]["type"] == "object"
    assert "description" not in schema
    assert plain(Part(name="a", for_="b", spread=Range(low=1.0, mid=2.0, high=3.0)))["spread"]["high"] == 3.0


@pytest.mark.parametrize("spread", [None, Range(low=1.0, mid=2.0, high=3.0)])
def test_filled_copies_fields_of_the_same_name(spread):
    assert fill_record(Part, Source("a", spread), for_="b") == Part(name="a", for_="b", spread=spread)


def test_filled_refuses_a_source_without_a_required_field():
    with pytest.raises(TypeError, match="for_"):
        fill_record(Part, Source("a", None))


def test_description_of_a_part_comes_from_the_named_model():
    @json_object(of=Assumption)
    class Shown:
        name: str

    assert document_schema("x", [Shown])["description"].startswith("One input of an estimate")


def test_value_without_a_json_form_is_refused():
    with pytest.raises(TypeError, match="complex has no form in the JSON of the contract"):
        plain({"x": 1j})


@given(
    st.recursive(
        st.one_of(
            st.text(),
            st.integers(),
            st.floats(),
            st.booleans(),
            st.none(),
            st.decimals(allow_nan=False, allow_infinity=False, places=4),
            st.sampled_from(Basis),
            st.datetimes(),
        ),
        lambda values: st.one_of(
            st.tuples(values, values),
            st.dictionaries(st.text(), values),
            st.builds(
                Part, name=st.text(), for_=values, spread=st.none() | st.just(Range(low=0.1, mid=2.0, high=1e22))
            ),
            st.builds(Retained, kind=st.just(RetainedKind.LOGS), name=st.text(), reason=st.text()),
        ),
    )
)
def test_json_text_of_a_value_is_that_of_its_plain_form(value):
    assert json_text(value) == json.dumps(plain(value), ensure_ascii=False)
