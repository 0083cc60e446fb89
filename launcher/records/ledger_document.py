"""One run of a ledger as JSON, written and read back."""

from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from launcher.model.ledger import ALONE, LedgerEntry, Shared
from launcher.model.money import UsdRange
from launcher.records.codec import Json, picked, plain
from launcher.records.shape import amount, hold, moment

ENTRY = "slipway.ledger-entry/1"
KEYS = (
    "name run origin started_at ended_at status simulated monthly target instance_type nodes region "
    "purchase_option=option quoted_usd usd_per_hour hours usd_at_quoted_rate billed_usd tokens epochs interruptions "
    "lost_h tags usd_used"
)


def entry_document(entry: LedgerEntry) -> Json:
    """One run as JSON: everything that it says of itself, and nothing that follows from that."""
    return {"schema": ENTRY, **picked(entry, KEYS), "shared": shared_document(entry.shared)}


_ENTRY: dict[str, Any] = {
    **dict.fromkeys(("schema", "name", "run", "origin", "started_at", "status"), str),
    **dict.fromkeys(("target", "instance_type", "region", "purchase_option"), str),
    **dict.fromkeys(("ended_at", "usd_per_hour", "usd_at_quoted_rate", "billed_usd"), (str, None)),
    **dict.fromkeys(("simulated", "monthly"), bool),
    **dict.fromkeys(("nodes", "interruptions"), int),
    **dict.fromkeys(("hours", "lost_h"), float),
    "tokens": (int, None),
    "epochs": (float, None),
    "quoted_usd": ({"low": str, "mid": str, "high": str}, None),
    "tags": dict,
}


_SHARED: dict[str, Any] = {
    **dict.fromkeys(("cluster", "reservation", "cluster_usd_per_hour"), str),
    **dict.fromkeys(("prepaid_usd", "list_usd_per_hour"), (str, None)),
    **dict.fromkeys(("start_h", "tail_h"), float),
}


def parse_entry(document: Any) -> LedgerEntry:
    """One run read back, which somebody else may have written.

    Raises:
        ValueError: it is none; the text says why.
    """
    hold(document, _ENTRY)
    hold(document.get("usd_used"), (str, None), "usd_used")
    if document["schema"] != ENTRY:
        raise ValueError(f"schema {document['schema']!r}, expected {ENTRY!r}")
    return LedgerEntry(
        name=document["name"],
        run=document["run"],
        origin=document["origin"],
        started_at=moment(document["started_at"]).astimezone(UTC),
        ended_at=_utc(document["ended_at"]),
        status=document["status"],
        simulated=document["simulated"],
        monthly=document["monthly"],
        target=document["target"],
        instance_type=document["instance_type"],
        nodes=document["nodes"],
        region=document["region"],
        option=document["purchase_option"],
        quoted_usd=_span(document["quoted_usd"]),
        usd_per_hour=amount(document["usd_per_hour"]),
        hours=document["hours"],
        usd_at_quoted_rate=amount(document["usd_at_quoted_rate"]),
        billed_usd=amount(document["billed_usd"]),
        tokens=document["tokens"],
        epochs=document["epochs"],
        interruptions=document["interruptions"],
        lost_h=document["lost_h"],
        tags=texts(document["tags"]),
        usd_used=amount(document.get("usd_used", document["usd_at_quoted_rate"])),
        shared=ALONE if document.get("shared") is None else parse_shared(document["shared"]),
    )


def shared_document(shared: Shared) -> Json:
    """What a run may share with others, as JSON."""
    found: Json = plain(shared)
    return found


def parse_shared(document: Any) -> Shared:
    """The same read back.

    Raises:
        ValueError: it is none.
    """
    hold(document, _SHARED, "shared")
    return Shared(
        cluster=document["cluster"],
        reservation=document["reservation"],
        prepaid_usd=amount(document["prepaid_usd"]),
        cluster_usd_per_hour=amount(document["cluster_usd_per_hour"]) or Decimal(0),
        start_h=document["start_h"],
        tail_h=document["tail_h"],
        list_usd_per_hour=amount(document["list_usd_per_hour"]),
    )


def texts(found: Mapping[str, Any]) -> dict[str, str]:
    """A mapping of texts to texts.

    Raises:
        ValueError: it has something else in it.
    """
    odd = next((key for key, value in found.items() if not isinstance(value, str)), None)
    if odd is not None:
        raise ValueError(f"tags.{odd} must be str, got {type(found[odd]).__name__}")
    return dict(found)


def _utc(text: str | None) -> datetime | None:
    return None if text is None else moment(text).astimezone(UTC)


def _span(found: Mapping[str, str] | None) -> UsdRange | None:
    """A range of dollars read back."""
    if found is None:
        return None
    low, mid, high = (amount(found[name]) or Decimal(0) for name in ("low", "mid", "high"))
    return UsdRange(low=low, mid=mid, high=high)
