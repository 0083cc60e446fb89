"""Frozen values with named fields: dataclasses that share all methods except `__init__`.

`dataclass(frozen=True)` writes six methods for every class and compiles them at each program start, 0.7 ms a
class; a plan loads a hundred of them before it reads its first price. A record offers the same interface
(`fields`, `replace`, `field`, `__post_init__`, inheritance between records) in a fifth of that time. Classes that no
command loads at its start can be frozen dataclasses.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field, fields
from functools import cached_property, partial
from itertools import count
from operator import attrgetter
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any, TypeVar, dataclass_transform, overload

Class = TypeVar("Class", bound=type)
FEW = 16
"""Instances of a class from which an `__init__` of its own takes less time than it takes to compile."""
INTERNAL: Mapping[str, bool] = {"internal": True}
"""The metadata of a field that is no key of the documents that have the record as an object."""


def formerly(name: str) -> Mapping[str, str]:
    """The metadata of a field that documents of earlier versions have under another name."""
    return {"formerly": name}


if TYPE_CHECKING:
    unlocked_property = cached_property
else:

    class unlocked_property(cached_property):  # noqa: N801 - a decorator, as cached_property is
        """A `cached_property` without the lock of Python 3.11, which takes longer than most properties of a row."""

        def __get__(self, instance, owner=None):  # noqa: ANN001, ANN204 - as in cached_property
            """The value, kept among the instance's attributes."""
            if instance is None:
                return self
            value = instance.__dict__[self.attrname] = self.func(instance)
            return value


@overload
def record(cls: Class, /) -> Class: ...
@overload
def record(*, slots: bool = True, eq: bool = True, described: bool = True) -> Callable[[Class], Class]: ...
@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field, Field))
def record(cls: Any = None, /, *, slots: bool = True, eq: bool = True, described: bool = True) -> Any:
    """Make a class a record: immutable, equal if its fields are equal, and constructed with named arguments.

    `slots=False` for a class with cached properties; `eq=False` for a class whose instances equal only themselves.
    `described=False` if its docstring is for readers of the code, not the description in the schemas of documents.

    >>> @record
    ... class Point:
    ...     x: int
    ...     y: int = 0
    >>> Point(x=1) == Point(x=1, y=0), Point(x=2)
    (True, Point(x=2, y=0))
    >>> Point(x=1).x = 2
    Traceback (most recent call last):
    dataclasses.FrozenInstanceError: cannot assign to field 'x'
    """
    made = partial(_as_record, slots=slots, eq=eq, described=described)
    return made if cls is None else made(cls)


def _as_record(cls: Any, *, slots: bool, eq: bool, described: bool) -> Any:
    attributes = vars(cls).keys()
    result = dataclass(init=False, repr=False, eq=False, slots=slots, kw_only=True)(cls)
    every = fields(result)
    result.__compared__ = _reader(field_ for field_ in every if field_.compare)
    result.__hashed__ = _reader(field_ for field_ in every if (field_.compare if field_.hash is None else field_.hash))
    result.__init__ = _first_init(result, every)
    if not described:
        result.__described__ = None
    for name, method in {**_SHARED, **(_EQUALITY if eq else {}), **(_STATE if slots else {})}.items():
        if name not in attributes:
            setattr(result, name, method)
    return result


def _reader(every: Iterable[Field[Any]]) -> Callable[[Any], Any]:
    """A function that returns the values of some fields, for comparisons."""
    names = [field_.name for field_ in every]
    return attrgetter(*names) if names else type


def _first_init(cls: type, every: tuple[Field[Any], ...]) -> Callable[..., None]:
    """The initial `__init__` of a class, which sets the fields in a loop: a class of many instances gets its own."""
    made = count(1)

    def __init__(self: Any, *arguments: Any, **values: Any) -> None:  # noqa: N807 - it stands for the class's own
        if arguments or next(made) > FEW or not _set_fields(self, every, dict(values)):
            if cls.__init__ is __init__:  # type: ignore[misc]
                cls.__init__ = _init(cls, every)  # type: ignore[misc]
            cls.__init__(self, *arguments, **values)  # type: ignore[misc]
        elif hasattr(cls, "__post_init__"):
            self.__post_init__()

    return __init__


def _set_fields(self: object, every: Iterable[Field[Any]], values: dict[str, Any]) -> bool:
    """Set every field from `values` or by its default; False if a value is missing or unknown."""
    for field_ in every:
        value = values.pop(field_.name, field_.default)
        if value is MISSING:
            make: Any = field_.default_factory
            if make is MISSING:
                return False
            value = make()
        object.__setattr__(self, field_.name, value)
    return not values


def _init(cls: type, every: tuple[Field[Any], ...]) -> Callable[..., None]:
    """The `__init__` that is generated for a class, as `dataclass` does: some classes have thousands of instances."""
    known: dict[str, Any] = {"MISSING": MISSING}
    parameters, lines = [], []
    for field_ in every:
        name, value = field_.name, field_.name
        if field_.default is not MISSING:
            known[f"default_{name}"] = field_.default
            parameters.append(f"{name}=default_{name}")
        elif field_.default_factory is not MISSING:
            known[f"new_{name}"] = field_.default_factory
            parameters.append(f"{name}=MISSING")
            value = f"new_{name}() if {name} is MISSING else {name}"
        else:
            parameters.append(name)
        # Both take less time than object.__setattr__: a plan makes tens of thousands of places.
        slot = getattr(cls, name, None)
        if isinstance(slot, MemberDescriptorType):
            known[f"set_{name}"] = slot.__set__
            lines.append(f"set_{name}(self, {value})")
        else:
            lines.append(f"self.__dict__[{name!r}] = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    named = f", *, {', '.join(parameters)}" if parameters else ""
    exec("\n ".join([f"def __init__(self{named}):", *lines, "return"]), known)  # noqa: S102 - of field names alone
    init: Callable[..., None] = known["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    return init


def _refuse_change(self: object, name: str, *_value: object) -> None:  # noqa: ARG001 - as the method has it
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _equal(self: Any, other: Any) -> Any:
    if type(other) is not type(self):
        return NotImplemented
    return self.__compared__(self) == other.__compared__(other)


def _hash(self: Any) -> int:
    return hash(self.__hashed__(self))


def _repr(self: Any) -> str:
    values = ", ".join(f"{field_.name}={getattr(self, field_.name)!r}" for field_ in fields(self) if field_.repr)
    return f"{type(self).__qualname__}({values})"


def _state(self: Any) -> list[Any]:
    return [getattr(self, field_.name) for field_ in fields(self)]


def _restore(self: Any, state: list[Any]) -> None:
    for field_, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, field_.name, value)


_SHARED: dict[str, Callable[..., Any]] = {
    "__setattr__": _refuse_change,
    "__delattr__": _refuse_change,
    "__repr__": _repr,
}
"""The methods that all records share."""
_EQUALITY: dict[str, Callable[..., Any]] = {"__eq__": _equal, "__hash__": _hash}
"""The methods that make records with equal fields equal."""
_STATE: dict[str, Callable[..., Any]] = {"__getstate__": _state, "__setstate__": _restore}
"""The methods that copy records with slots."""
