"""Prices, their changes, and the result of a refresh as JSON: slipway.prices/1."""

from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

from launcher.answers.prices import change_percent, changed_row
from launcher.catalog.fetched_prices import Unmatched
from launcher.catalog.listing import BILL_ITEM, SPOT_RANGE, PriceChange, PriceRow
from launcher.catalog.price_moves import Move
from launcher.catalog.selector import SAGEMAKER, Key
from launcher.model.enums import Basis, Market, PurchaseOption
from launcher.records.codec import Json, as_json
from launcher.records.document import fill_record, json_object
from launcher.records.refresh_report import RefreshReport

_DETAILS = {
    PurchaseOption.RESERVED.value: "offering_class",
    PurchaseOption.SAVINGS_PLAN.value: "plan_kind",
    SAGEMAKER: "component",
    SPOT_RANGE: "statistic",
    BILL_ITEM: "tier",
}
"""The meaning of `PriceRow.detail`, by kind."""


@json_object
class PriceKey:
    """The item that a price is for; keys that do not identify an item of its kind are null."""

    kind: str
    instance_type: str | None
    item: str | None
    region: str
    az_id: str | None
    offering_class: str | None
    plan_kind: str | None
    component: str | None
    statistic: str | None
    tier: str | None
    term_years: int | None
    payment: str | None


def _key(key: Key) -> dict[str, Any]:
    """The values of these keys."""
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


@json_object
class PriceObject(PriceKey):
    """A compute price is in `usd_per_hour`, a bill item's in `usd_per_unit`; `unpriced` is why it has none."""

    unit: str
    usd_per_hour: Decimal | None
    usd_per_unit: Decimal | None
    unpriced: str | None
    as_of: date
    age_days: int | None
    basis: Basis | None
    source: str
    note: str
    market: Market | None
    current: bool

    @classmethod
    def of(cls, row: PriceRow) -> "PriceObject":
        """The object of a row."""
        compute = row.kind != BILL_ITEM
        return fill_record(
            cls,
            row,
            **_key(Key(*row.key)),
            usd_per_hour=row.usd if compute else None,
            usd_per_unit=None if compute else row.usd,
            unpriced=None if row.usd is not None else row.note or "no price is known",
        )


@json_object
class PricesDocument:
    """The rows of a listing."""

    schema: Literal["slipway.prices/1"] = "slipway.prices/1"
    as_of: datetime
    prices_as_of: date | None
    rows: tuple[PriceObject, ...]


@json_object
class SideObject:
    """A price on one of the two days."""

    usd: Decimal | None
    as_of: date
    basis: Basis | None
    source: str


@json_object
class WhatChanged:
    """The first key of a change."""

    what: Literal["added", "removed", "changed"]


@json_object
class ChangeObject(PriceKey, WhatChanged):
    """The change of a price."""

    before: SideObject | None
    after: SideObject | None
    percent: float | None

    @classmethod
    def of(cls, change: PriceChange) -> "ChangeObject":
        """The object of a change."""
        before, after = change.before, change.after
        return cls(
            what=change.what,
            **_key(Key(*changed_row(change).key)),
            before=None if before is None else fill_record(SideObject, before),
            after=None if after is None else fill_record(SideObject, after),
            percent=change_percent(change),
        )


@json_object
class ChangesDocument:
    """The changes between two days."""

    schema: Literal["slipway.prices/1"] = "slipway.prices/1"
    as_of: datetime
    before: date
    after: date
    changes: tuple[ChangeObject, ...]


@json_object
class MoveObject(PriceKey):
    """A price that moved by more than half, or that AWS no longer returned."""

    usd_before: Decimal
    before_as_of: date
    usd_after: Decimal | None
    percent: float | None

    @classmethod
    def of(cls, move: Move) -> "MoveObject":
        """The object of a move."""
        return fill_record(cls, move, **_key(move.key), usd_before=move.before, usd_after=move.after)


@json_object
class RefusedPrice(PriceKey):
    """A price that was refused, and the reason."""

    reason: str


@json_object
class Failure:
    """A failed request."""

    what: str
    message: str
    hint: str


@json_object
class RefreshObject:
    """Counts of requests, stored prices, and everything that needs attention."""

    cache: Path
    asked: int
    answered: int
    resumed: int
    prices: int
    jumped: tuple[MoveObject, ...]
    vanished: tuple[MoveObject, ...]
    refused: tuple[RefusedPrice, ...]
    unmatched: tuple[Unmatched, ...]
    failures: tuple[Failure, ...]
    skipped_regions: tuple[str, ...]
    public: bool
    unasked: tuple[str, ...]
    snapshot: str | None
    plugin: str | None


@json_object
class RefreshDocument:
    """The result of a refresh."""

    schema: Literal["slipway.prices/1"] = "slipway.prices/1"
    as_of: datetime
    refresh: RefreshObject


def show_document(*, now: datetime, prices_as_of: date | None, rows: Sequence[PriceRow]) -> Json:
    """The rows of a listing; ages are counted from `now`."""
    listed = tuple(PriceObject.of(row) for row in rows)
    return as_json(PricesDocument(as_of=now, prices_as_of=prices_as_of, rows=listed))


def diff_document(*, now: datetime, before: date, after: date, changes: Sequence[PriceChange]) -> Json:
    """The changes between two days."""
    listed = tuple(ChangeObject.of(change) for change in changes)
    return as_json(ChangesDocument(as_of=now, before=before, after=after, changes=listed))


def refresh_document(report: RefreshReport, now: datetime) -> Json:
    """The result of a refresh."""
    refreshed = fill_record(
        RefreshObject,
        report,
        jumped=tuple(MoveObject.of(move) for move in report.jumped),
        vanished=tuple(MoveObject.of(move) for move in report.vanished),
        refused=tuple(RefusedPrice(**_key(refusal.key), reason=refusal.reason) for refusal in report.refused),
        failures=tuple(
            Failure(what=name, message=failure.message, hint=failure.hint) for name, failure in report.failures
        ),
    )
    return as_json(RefreshDocument(as_of=now, refresh=refreshed))
