"""The kinds of values in a plan file.

A field of a request names its kind, which determines parsing, dumping and the JSON Schema.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, field
from enum import StrEnum
from typing import Any

from launcher.model.record import record

S3_FORM = r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/.*)?"
_NO_TEXT = re.compile(r"[0-9e-]+|0[xo][0-9a-f]+|y|n|yes|no|on|off|true|false|null|nan|inf")
"""Names that YAML reads as a number, a date or a switch without quotes."""


@record
class Kind:
    """The base of all kinds."""


@record
class Text(Kind):
    """A string; `pattern` is a regular expression for the full string, `form` describes it in words.

    `hidden`: no message shows a wrong value, which may be a secret. `fix` gives what to write instead of a wrong text.
    """

    pattern: str | None = None
    form: str = "text"
    hidden: bool = False
    fix: Callable[[str], str] | None = None


def name_fix(text: str) -> str:
    """The nearest name of at most 40 small letters, digits and -, for a text that the user chooses.

    >>> name_fix("My.Job v2"), name_fix("5 %"), name_fix("..."), len(name_fix("a" * 50))
    ('write my-job-v2', 'write "5"', '', 46)
    """
    name = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:40].strip("-")
    if name and _NO_TEXT.fullmatch(name):
        name = f'"{name}"'
    return f"write {name}" if name else ""


def s3_fix(text: str) -> str:
    """An S3 URI for a text that is none: what Slipway can read from it, or the form of a bucket's name.

    >>> s3_fix("team-data/imagenet"), s3_fix("https://team-data.s3.us-east-1.amazonaws.com/a")
    ('write s3://team-data/imagenet', 'write s3://team-data/a')
    >>> s3_fix("s3://ab/x")
    'a bucket has 3 to 63 of a-z, 0-9, . and -, such as s3://my-bucket/prefix: aws s3 ls lists yours'
    """
    hosted = re.fullmatch(r"https://([^./]+)\.s3[\w.-]*\.amazonaws\.com(/.*)?", text)
    bare = text.partition("://")[2] if text.lower().startswith("s3://") else text.lstrip("/")
    uri = f"s3://{hosted[1]}{hosted[2] or ''}" if hosted else f"s3://{bare}"
    if uri != text and re.fullmatch(S3_FORM, uri) and not text.startswith(("/", ".")):
        return f"write {uri}"
    return "a bucket has 3 to 63 of a-z, 0-9, . and -, such as s3://my-bucket/prefix: aws s3 ls lists yours"


FILLED = Text(pattern=r"[\s\S]*\S[\s\S]*", form="text that is not empty")
IMAGE = Text(pattern=r"\S+", form="a container image without spaces, such as ACCOUNT.dkr.ecr.REGION.amazonaws.com/NAME")
S3_URI = Text(pattern=S3_FORM, form="s3://bucket/prefix", fix=s3_fix)


@record
class Number(Kind):
    """A finite number, at least `minimum`, above `above`, at most `maximum`; errors name its `unit`."""

    minimum: float | None = None
    above: float | None = None
    maximum: float | None = None
    unit: str = ""


@record
class Integer(Kind):
    """An integer between `minimum` and `maximum`, both included."""

    minimum: int | None = None
    maximum: int | None = None


@record
class Usd(Kind):
    """Dollars: a number or a numeric string, kept exact."""

    minimum: int = 0


@record
class Flag(Kind):
    """True or false."""


@record
class Instant(Kind):
    """An ISO 8601 moment; without an offset it is UTC."""


@record
class Choice(Kind):
    """One word of a closed vocabulary."""

    options: type[StrEnum]


@record
class Many(Kind):
    """A list; read as a tuple. `exactly` fixes its length; `command_line`: bash runs a string."""

    item: Kind
    exactly: int | None = None
    command_line: bool = False


@record
class Table(Kind):
    """A mapping of names to values of one kind, at most `max_entries` entries; `keys` is a pattern for the names."""

    item: Kind
    keys: str | None = None
    form: str = "a name"
    max_entries: int | None = None


@record
class Nullable(Kind):
    """A value or null (None)."""

    item: Kind


@record
class Auto(Kind):
    """A value or the word `auto` (None): Slipway chooses."""

    item: Kind


@record
class Open(Kind):
    """`any` (None), one value, or a list of values (a tuple): each is a candidate."""

    item: Kind


@record
class AnyOf(Kind):
    """`any` (None) or one value."""

    item: Kind


@record
class NodeCount(Kind):
    """`any` (None), a number, or {min, max}; read as NodeRange."""


@record
class Section(Kind):
    """A mapping whose keys are the fields of a request dataclass."""

    of: type


@record
class NameOr(Kind):
    """A name (a string) or a mapping with the fields of a dataclass; `form` is both in words."""

    of: type
    form: str = "a name or a mapping with params_b"


def setting(default: Any, kind: Kind, doc: str) -> Any:
    """A field of a request: its default, its kind and the line that documents it."""
    metadata: Mapping[str, object] = {"kind": kind, "doc": doc}
    if default is MISSING:
        return field(metadata=metadata)
    if callable(default):
        return field(default_factory=default, metadata=metadata)
    return field(default=default, metadata=metadata)
