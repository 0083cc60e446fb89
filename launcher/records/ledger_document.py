"""One run of a ledger as JSON, written and read back."""

from decimal import Decimal
from typing import Any, NamedTuple

from launcher.agent.shape import read
from launcher.model.ledger import LedgerEntry, Shared
from launcher.records.codec import Json, picked, plain

ENTRY = "slipway.ledger-entry/1"
KEYS = (
    "name run origin started_at ended_at status simulated monthly target instance_type nodes region "
    "purchase_option=option quoted_usd usd_per_hour hours usd_at_quoted_rate billed_usd tokens epochs interruptions "
    "lost_h tags usd_used"
)


def entry_document(entry: LedgerEntry) -> Json:
    """One run as JSON: all its own fields, without derived values."""
    return {"schema": ENTRY, **picked(entry, KEYS), "shared": shared_document(entry.shared)}


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


def shared_document(shared: Shared) -> Json:
    """The resources that a run may share with others, as JSON."""
    document: Json = plain(shared)
    return document
