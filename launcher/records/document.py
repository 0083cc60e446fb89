"""Documents of the contract as types: the fields of a class are the keys of an object, and their types are its schema.

`codec.plain` writes a document, `agent.shape.read` reads it back, and `json_schema` derives its schema. A field with a
default may be missing in a document of an earlier version; it is always written.
"""

from collections.abc import Callable, Mapping
from dataclasses import Field, field, fields
from functools import cache
from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform, overload

from launcher.model.record import Class, record

T = TypeVar("T")
OMITTED: Mapping[str, bool] = {"omitted": True}
"""The metadata of a field whose key is left out if its value is None."""
MOST_KEPT = 4_096
"""Results that `by_identity` keeps at most."""


@overload
def json_object(cls: Class, /) -> Class: ...
@overload
def json_object(*, of: type) -> Callable[[Class], Class]: ...
@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field, Field))
def json_object(cls: Any = None, /, *, of: type | None = None) -> Any:
    """Make a class an object of a document: a record, whose docstring is for readers of the code.

    Values of the model can be parts of a document as well; their docstrings are the descriptions in its schema. `of`:
    the class of the model whose values the object has under its own keys, and whose description it takes.

    >>> @json_object
    ... class Seen:
    ...     name: str
    ...     note: str | None = field(default=None, metadata=OMITTED)
    >>> from launcher.records.codec import plain
    >>> plain(Seen(name="a")), plain(Seen(name="a", note="b"))
    ({'name': 'a'}, {'name': 'a', 'note': 'b'})
    """

    def make(plain: Any) -> Any:
        # Without slots, so that a document can be of several parts.
        result: Any = record(slots=False)(plain)
        result.__described__ = of
        every = result.__dataclass_fields__
        if "schema" in every:
            # The first key of a document, also if it has the keys of another object.
            result.__dataclass_fields__ = {"schema": every["schema"], **every}
        return result

    return make(cls) if cls is not None else make


def fill_record(cls: type[T], source: Any, /, **values: Any) -> T:
    """A record whose fields have these values, or those of the source's attributes of the same names.

    >>> @json_object
    ... class Usd:
    ...     low: int
    ...     spread: int
    >>> fill_record(Usd, Usd(low=1, spread=0), spread=9)
    Usd(low=1, spread=9)
    """
    return cls(**record_values(cls, source, values))


def record_values(cls: type, source: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of the fields of such a record, by name."""
    made: Any = cls
    kind: Any = type(source)
    names, get = _same(made, kind, tuple(values))
    return {**dict(zip(names, get(source), strict=True)), **values}


def by_identity(function: Callable[..., T]) -> Callable[..., T]:
    """A function of immutable objects that computes its result once for the same objects, which live as long.

    Equal objects need not be compared by their fields.
    """
    known: dict[object, tuple[object, T]] = {}

    def compute_once(value: Any, *more: Any) -> T:
        key = (id(value), *map(id, more)) if more else id(value)
        found = known.get(key)
        if found is None:
            if len(known) >= MOST_KEPT:
                known.clear()
            found = known[key] = (value, more), function(value, *more)
        return found[1]

    return compute_once


@cache
def _same(cls: Any, source: Any, given: tuple[str, ...]) -> tuple[tuple[str, ...], Callable[[Any], tuple[Any, ...]]]:
    """The fields of a class that a source has as well, but for the given ones, and their reader."""
    has = {*dir(source), *getattr(source, "__dataclass_fields__", ())}
    names = tuple(item.name for item in fields(cls) if item.name not in given and item.name in has)
    if len(names) > 1:
        return names, attrgetter(*names)
    return names, lambda value: tuple(getattr(value, name) for name in names)


@json_object
class UnreadRun:
    """A run that could not be read, and the reason."""

    run: str
    reason: str


@json_object
class NamedStatus:
    """A stack, a job or another resource, and its status."""

    name: str
    status: str
