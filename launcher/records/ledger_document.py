"""One run of a ledger as JSON, written and read back."""

from typing import Any, Final

from launcher.agent.shape import read
from launcher.model.ledger import LedgerEntry
from launcher.records.codec import Json, as_json

ENTRY: Final = "slipway.ledger-entry/1"


def entry_document(entry: LedgerEntry) -> Json:
    """One run as JSON: all own fields, without derived values."""
    return {"schema": ENTRY, **as_json(entry)}


def parse_entry(document: Any) -> LedgerEntry:
    """One run read back, possibly written by another user.

    Raises:
        ValueError: the document is not a run; the text gives the reason.
    """
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema != ENTRY:
        raise ValueError(f"schema {schema!r}, expected {ENTRY!r}")
    # Entries of earlier versions lack the cost of the hours, and have no value of what is shared.
    since = {"usd_used": document.get("usd_at_quoted_rate")}
    given = {key: value for key, value in document.items() if value is not None or key != "shared"}
    return read(LedgerEntry, {**since, **given})
