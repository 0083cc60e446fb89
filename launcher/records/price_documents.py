"""slipway.prices/1: `rows` (prices show), `changes` (prices diff) or `refresh` (prices refresh)."""

from collections.abc import Sequence
from datetime import date, datetime

from launcher.catalog.fetched_prices import Move, percent
from launcher.catalog.listing import BILL_ITEM, SPOT_RANGE, PriceChange, PriceRow
from launcher.catalog.selector import SAGEMAKER, Key
from launcher.model.enums import PurchaseOption
from launcher.records.documents import Json, money
from launcher.records.refresh_report import RefreshReport

SCHEMA = "slipway.prices/1"
_DETAILS = {
    PurchaseOption.RESERVED.value: "offering_class",
    PurchaseOption.SAVINGS_PLAN.value: "plan_kind",
    SAGEMAKER: "component",
    SPOT_RANGE: "statistic",
    BILL_ITEM: "tier",
}
"""What `PriceRow.detail` is, by kind."""


def show_document(*, now: datetime, prices_as_of: date | None, rows: Sequence[PriceRow]) -> Json:
    """The rows of a listing; ages are counted from `now`."""
    return {
        "schema": SCHEMA,
        "as_of": now.isoformat(),
        "prices_as_of": prices_as_of.isoformat() if prices_as_of else None,
        "rows": [price_row(each) for each in rows],
    }


def diff_document(*, now: datetime, before: date, after: date, changes: Sequence[PriceChange]) -> Json:
    """What changed between two days."""
    return {
        "schema": SCHEMA,
        "as_of": now.isoformat(),
        "before": before.isoformat(),
        "after": after.isoformat(),
        "changes": [_change(each) for each in changes],
    }


def refresh_document(report: RefreshReport, now: datetime) -> Json:
    """What a refresh brought: counts of questions, prices kept, and everything worth a look."""
    return {
        "schema": SCHEMA,
        "as_of": now.isoformat(),
        "refresh": {
            "cache": str(report.cache),
            "asked": report.asked,
            "answered": report.answered,
            "resumed": report.resumed,
            "prices": report.prices,
            "jumped": [_move(each) for each in report.jumped],
            "vanished": [_move(each) for each in report.vanished],
            "refused": [{**_key(each.key), "reason": each.reason} for each in report.refused],
            "unmatched": [
                {"item": each.item, "region": each.region, "reason": each.reason} for each in report.unmatched
            ],
            "failures": [{"what": what, "message": each.message, "hint": each.hint} for what, each in report.failures],
            "skipped_regions": list(report.skipped_regions),
            "public": report.public,
            "unasked": list(report.unasked),
        },
    }


def price_row(row: PriceRow) -> Json:
    """One row. A compute price is in `usd_per_hour`, one of a bill item in `usd_per_unit`; `unpriced` says why not."""
    compute = row.kind != BILL_ITEM
    return {
        **_key(Key(*row.key)),
        "unit": row.unit,
        "usd_per_hour": money(row.usd) if compute else None,
        "usd_per_unit": None if compute else money(row.usd),
        "unpriced": None if row.usd is not None else row.note or "no price is known",
        "as_of": row.as_of.isoformat(),
        "age_days": row.age_days,
        "basis": row.basis.value if row.basis else None,
        "source": row.source,
        "note": row.note,
        "market": row.market.value if row.market else None,
        "current": row.current,
    }


def _key(key: Key) -> Json:
    """What a price is the price of."""
    details = dict.fromkeys(_DETAILS.values())
    if key.kind in _DETAILS:
        details[_DETAILS[key.kind]] = key.detail or None
    is_item = key.kind == BILL_ITEM
    return {
        "kind": key.kind,
        "instance_type": None if is_item else key.name,
        "item": key.name if is_item else None,
        "region": key.region,
        "az_id": key.zone or None,
        **details,
        "term_years": key.term_years or None,
        "payment": key.payment or None,
    }


def _change(change: PriceChange) -> Json:
    """One change, with the share of the old price in percent."""
    named = change.after or change.before
    share = None
    if change.before and change.after and change.before.usd and change.after.usd is not None:
        share = percent(change.before.usd, change.after.usd)
    return {
        "what": change.what,
        **(_key(Key(*named.key)) if named else {}),
        "before": _side(change.before),
        "after": _side(change.after),
        "percent": share,
    }


def _side(row: PriceRow | None) -> Json | None:
    """One side of a change."""
    if row is None:
        return None
    return {
        "usd": money(row.usd),
        "as_of": row.as_of.isoformat(),
        "basis": row.basis.value if row.basis else None,
        "source": row.source,
    }


def _move(move: Move) -> Json:
    """A price that jumped or is gone."""
    return {
        **_key(move.key),
        "usd_before": money(move.before),
        "before_as_of": move.before_as_of.isoformat(),
        "usd_after": money(move.after),
        "percent": move.percent,
    }
