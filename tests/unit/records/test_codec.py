"""One rule converts values to JSON: by their fields, or by the keys that a document names."""

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from launcher.model.enums import Basis
from launcher.model.finding import warning
from launcher.model.money import Assumption, Range
from launcher.model.removal import Retained, RetainedKind
from launcher.records.codec import named, picked, plain


def test_a_record_has_its_fields_in_their_order():
    retained = Retained(kind=RetainedKind.LOGS, name="/aws/l", reason="billed", usd_per_month=Decimal("0.2300"))
    assert list(plain(retained).items()) == [
        ("kind", "logs"),
        ("name", "/aws/l"),
        ("reason", "billed"),
        ("gib", None),
        ("usd_per_month", "0.23"),
        ("unpriced", None),
    ]


def test_values_at_any_depth_are_plain():
    moment = datetime(2026, 11, 23, 8, tzinfo=UTC)
    value = {"at": moment, "in": [Path("a/b"), (Basis.LISTED, Range(low=1.0, mid=2.0, high=3.0))]}
    spread = {"low": 1.0, "mid": 2.0, "high": 3.0}
    assert plain(value) == {"at": "2026-11-23T08:00:00+00:00", "in": ["a/b", ["listed", spread]]}


def test_keys_choose_rename_and_reach_into_a_record():
    rests = Assumption(name="rate", value="3", unit="h", source="a page", steps=("never shown",))
    assert plain([rests], {Assumption: "name from=source"}) == [{"name": "rate", "from": "a page"}]
    assert picked(rests, "name length=source.__class__.__name__") == {"name": "rate", "length": "str"}
    assert named([("a", 1)], "name", "count") == [{"name": "a", "count": 1}]
    assert plain(warning("code", "", "text"))["level"] == "warning"


def test_what_has_no_form_is_refused():
    with pytest.raises(TypeError, match="complex has no form in the JSON of the contract"):
        plain({"x": 1j})
    with pytest.raises(AttributeError, match="nothing"):
        picked(Range(low=0.0, mid=0.0, high=0.0), "nothing")
