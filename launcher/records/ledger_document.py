"""slipway.ledger/1, and one run of a ledger as JSON, written and read back."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from launcher.model.ledger import Grouping, Ledger, LedgerEntry, LedgerTotal, grouped, total
from launcher.model.money import UsdRange
from launcher.records.documents import money, usd_span
from launcher.records.shape import amount, hold, moment

ENTRY = "slipway.ledger-entry/1"


def ledger_document(ledger: Ledger, by: Grouping | None = None) -> dict[str, Any]:
    """A ledger as the contract's JSON; `groups` where it was asked for by something."""
    groups = {} if by is None else {"groups": [_total(each) for each in grouped(ledger.entries, by)]}
    return {
        "schema": "slipway.ledger/1",
        "source": ledger.source,
        "runs": [_listed(each) for each in ledger.entries],
        "total": _total(total(ledger.entries)),
        "unread": [{"run": run, "reason": reason} for run, reason in ledger.unread],
        **groups,
    }


def entry_document(entry: LedgerEntry) -> dict[str, Any]:
    """One run as JSON: everything that it says of itself, and nothing that follows from that."""
    return {
        "schema": ENTRY,
        "name": entry.name,
        "run": entry.run,
        "origin": entry.origin,
        "started_at": entry.started_at.isoformat(),
        "ended_at": entry.ended_at.isoformat() if entry.ended_at else None,
        "status": entry.status,
        "simulated": entry.simulated,
        "monthly": entry.monthly,
        "target": entry.target,
        "instance_type": entry.instance_type,
        "nodes": entry.nodes,
        "region": entry.region,
        "purchase_option": entry.option,
        "quoted_usd": usd_span(entry.quoted_usd),
        "usd_per_hour": money(entry.usd_per_hour),
        "hours": entry.hours,
        "usd_at_quoted_rate": money(entry.usd_at_quoted_rate),
        "billed_usd": money(entry.billed_usd),
        "tokens": entry.tokens,
        "epochs": entry.epochs,
        "interruptions": entry.interruptions,
        "lost_h": entry.lost_h,
        "tags": dict(entry.tags),
    }


def _listed(entry: LedgerEntry) -> dict[str, Any]:
    """One run of slipway.ledger/1."""
    own = entry_document(entry)
    del own["schema"]
    follows = {
        "usd": money(entry.usd),
        "usd_per_million_tokens": money(entry.usd_per_million_tokens),
        "usd_per_epoch": money(entry.usd_per_epoch),
        "usd_lost": money(entry.usd_lost),
    }
    return own | follows


def _total(found: LedgerTotal) -> dict[str, Any]:
    return {
        "key": found.key or None,
        "runs": found.runs,
        "simulated": found.simulated,
        "incomplete": found.incomplete,
        "quoted_usd": money(found.quoted_usd),
        "usd_at_quoted_rate": money(found.usd_at_quoted_rate),
        "billed_usd": money(found.billed_usd),
        "hours": found.hours,
        "tokens": found.tokens,
        "usd_per_million_tokens": money(found.usd_per_million_tokens),
        "interruptions": found.interruptions,
        "lost_h": found.lost_h,
        "usd_lost": money(found.usd_lost),
    }


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


def parse_entry(document: Any) -> LedgerEntry:
    """One run read back, which somebody else may have written.

    Raises:
        ValueError: it is none; the text says why.
    """
    hold(document, _ENTRY)
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


def rows(entries: Iterable[LedgerEntry]) -> tuple[list[str], list[list[str]]]:
    """The columns of `ledger --csv` and its rows: as in the JSON, ranges spread, tags as key=value."""
    first = ("name", "run", "started_at", "ended_at", "status", "simulated", "target", "instance_type", "nodes")
    columns = [*first, "region", "purchase_option", "quoted_usd_low", "quoted_usd_mid", "quoted_usd_high"]
    columns += ["usd_per_hour", "hours", "usd_at_quoted_rate", "billed_usd", "usd", "tokens", "usd_per_million_tokens"]
    columns += ["epochs", "usd_per_epoch", "interruptions", "lost_h", "usd_lost", "tags"]
    found = []
    for entry in entries:
        flat = _listed(entry)
        span = flat.pop("quoted_usd") or {}
        flat |= {f"quoted_usd_{name}": span.get(name) for name in ("low", "mid", "high")}
        flat["tags"] = ";".join(f"{key}={value}" for key, value in entry.tags.items())
        found.append(["" if flat[name] is None else str(flat[name]) for name in columns])
    return columns, found


def _utc(text: str | None) -> datetime | None:
    return None if text is None else moment(text).astimezone(UTC)


def _span(found: Mapping[str, str] | None) -> UsdRange | None:
    """A range of dollars read back."""
    if found is None:
        return None
    low, mid, high = (amount(found[name]) or Decimal(0) for name in ("low", "mid", "high"))
    return UsdRange(low=low, mid=mid, high=high)
