"""A record behaves like a frozen dataclass."""

import copy
import pickle
from dataclasses import FrozenInstanceError, dataclass, field, fields, is_dataclass, replace
from functools import cached_property
from typing import Any

import pytest

from launcher.model.record import FEW, record


@record
class Made:
    """A record."""

    name: str
    many: dict[str, int] = field(default_factory=dict, hash=False)
    note: str = field(default="", compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The same as a dataclass."""

    name: str
    many: dict[str, int] = field(default_factory=dict, hash=False)
    note: str = field(default="", compare=False, repr=False)


@record
class Longer(Made):
    """One that adds a field."""

    count: int

    def __post_init__(self) -> None:
        if self.count < 0:
            raise ValueError(self.count)


@record(slots=False)
class Kept:
    """One that keeps what it has worked out."""

    count: int

    @cached_property
    def twice(self) -> list[int]:
        return [self.count] * 2


@pytest.mark.parametrize("kind", [Made, Written])
def test_record_behaves_like_frozen_dataclass(kind: Any) -> None:
    one = kind(name="a", many={"b": 1}, note="c")
    assert one == kind(name="a", many={"b": 1}, note="d")
    assert one != kind(name="a")
    assert one != "a"
    assert hash(one) == hash(kind(name="a", many={"other": 2}))
    assert repr(one) == f"{kind.__name__}(name='a', many={{'b': 1}})"
    assert is_dataclass(kind(name="a"))
    assert [field_.name for field_ in fields(one)] == ["name", "many", "note"]
    assert replace(one, name="z") == kind(name="z", many={"b": 1})
    assert kind(name="a").many is not kind(name="a").many
    assert copy.deepcopy(one) == one
    assert copy.copy(one) == one
    for change in (lambda: setattr(one, "name", "z"), lambda: delattr(one, "name"), lambda: setattr(one, "new", 1)):
        with pytest.raises((FrozenInstanceError, TypeError)):
            change()
    assert one.name == "a"


@pytest.mark.parametrize("kind", [Made, Written])
@pytest.mark.parametrize("given, message", [({}, "name"), ({"name": "a", "other": 1}, "other")])
def test_wrong_arguments_refused_by_name(kind: Any, given: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message) as refusal:
        kind(**given)
    assert f"{kind.__name__}.__init__()" in str(refusal.value)
    with pytest.raises(TypeError):
        kind("a")


def test_all_instances_of_record_are_alike() -> None:
    @record
    class Counted:
        """One of many."""

        count: int
        parts: list[int] = field(default_factory=list)
        unit: str = "h"

        def __post_init__(self) -> None:
            self.parts.append(self.count)

    every = [Counted(count=number) for number in range(2 * FEW)]
    assert every == [Counted(count=number, parts=[], unit="h") for number in range(2 * FEW)]
    assert [one.parts for one in every] == [[number] for number in range(2 * FEW)]


def test_record_inherits_fields_of_base() -> None:
    assert repr(Longer(name="a", count=1)) == "Longer(name='a', many={}, count=1)"
    assert Longer(name="a", count=1) != Made(name="a")
    with pytest.raises(ValueError, match="-1"):
        Longer(name="a", count=-1)


def test_cached_property_of_record_is_computed_once() -> None:
    one = Kept(count=2)
    assert one.twice is one.twice
    assert replace(one, count=3).twice == [3, 3]
    with pytest.raises(FrozenInstanceError):
        one.count = 3  # type: ignore[misc]
    assert not hasattr(Made(name="a"), "__dict__")


def test_record_with_identity_equality_equals_only_same_object() -> None:
    @record(eq=False)
    class Fact:
        """A fact."""

        name: str

    one = Fact(name="a")
    assert one == one  # noqa: PLR0124 - what is tested
    assert one != Fact(name="a")
    assert len({one, Fact(name="a")}) == 2


def test_record_survives_pickling() -> None:
    one = Made(name="a", many={"b": 1})
    assert pickle.loads(pickle.dumps(one)) == one  # noqa: S301 - made here
