"""One run of a ledger as JSON, written and read back."""

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any, Final, Literal, NamedTuple, TypeVar

from launcher.agent.shape import read
from launcher.model.ledger import LedgerEntry, Shared
from launcher.model.money import UsdRange
from launcher.records.codec import Json, as_json
from launcher.records.document import filled, json_object

ENTRY: Final = "slipway.ledger-entry/1"


@json_object
class RunObject:
    """One run: its quote, its duration and its cost."""

    name: str
    run: str
    origin: str
    started_at: datetime
    ended_at: datetime | None
    status: str
    simulated: bool
    monthly: bool
    target: str
    instance_type: str
    nodes: int
    region: str
    purchase_option: str
    quoted_usd: UsdRange | None
    usd_per_hour: Decimal | None
    hours: float
    usd_at_quoted_rate: Decimal | None
    billed_usd: Decimal | None
    tokens: int | None
    epochs: float | None
    interruptions: int
    lost_h: float
    tags: Mapping[str, str]
    usd_used: Decimal | None


Run = TypeVar("Run", bound=RunObject)


def of_entry(cls: type[Run], entry: LedgerEntry) -> Run:
    """The object of a run."""
    return filled(cls, entry, purchase_option=entry.option)


@json_object
class EntryHead:
    """The first key of an entry."""

    schema: Literal["slipway.ledger-entry/1"] = ENTRY


@json_object
class EntryDocument(RunObject, EntryHead):
    """All own fields of a run, without derived values."""

    shared: Shared


def entry_document(entry: LedgerEntry) -> Json:
    """One run as JSON."""
    return as_json(of_entry(EntryDocument, entry))


class _Head(NamedTuple):
    """The keys that an entry has under other names, or instead of later ones."""

    schema: str
    purchase_option: str
    usd_at_quoted_rate: Decimal | None


def parse_entry(document: Any) -> LedgerEntry:
    """One run read back, possibly written by another user.

    Raises:
        ValueError: the document is not a run; the text gives the reason.
    """
    head = read(_Head, document)
    if head.schema != ENTRY:
        raise ValueError(f"schema {head.schema!r}, expected {ENTRY!r}")
    # What entries of earlier versions lack.
    since = {"usd_used": document.get("usd_used", document["usd_at_quoted_rate"]), "shared": {}}
    given = {name: value for name, value in document.items() if value is not None or name != "shared"}
    return read(LedgerEntry, {**since, **given, "option": head.purchase_option})
