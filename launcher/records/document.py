"""Documents of the contract as types: the fields of a class are the keys of an object, and their types are its schema.

`codec.plain` writes a document, `agent.shape.read` reads it back, and `json_schema` derives its schema. A field with a
default may be missing in a document of an earlier version; it is always written.
"""

from collections.abc import Mapping
from dataclasses import Field, field, fields
from typing import Any, TypeVar, dataclass_transform

from launcher.model.record import Class, record

T = TypeVar("T")
OMITTED: Mapping[str, bool] = {"omitted": True}
"""The metadata of a field whose key is left out if its value is None."""


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field, Field))
def json_object(cls: Class) -> Class:
    """Make a class an object of a document: a record, whose docstring is for readers of the code.

    Values of the model can be parts of a document as well; their docstrings are the descriptions in its schema.

    >>> @json_object
    ... class Seen:
    ...     name: str
    ...     note: str | None = field(default=None, metadata=OMITTED)
    >>> from launcher.records.codec import plain
    >>> plain(Seen(name="a")), plain(Seen(name="a", note="b"))
    ({'name': 'a'}, {'name': 'a', 'note': 'b'})
    """
    made: Any = record(cls)
    made.__described__ = False
    result: Class = made
    return result


def filled(cls: type[T], source: Any, **values: Any) -> T:
    """A record whose fields have these values, or those of the source's attributes of the same names.

    >>> @json_object
    ... class Usd:
    ...     low: int
    ...     spread: int
    >>> filled(Usd, Usd(low=1, spread=0), spread=9)
    Usd(low=1, spread=9)
    """
    made: Any = cls
    for item in fields(made):
        if item.name not in values and hasattr(source, item.name):
            values[item.name] = getattr(source, item.name)
    return cls(**values)


@json_object
class NamedStatus:
    """A stack, a job or another resource, and its status."""

    name: str
    status: str
