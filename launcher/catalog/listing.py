"""Price rows for a reader: current rows, history, and rows that price nothing."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import date
from decimal import Decimal
from typing import Any, Literal

from launcher.catalog.bill import EVERYWHERE, current_tiers
from launcher.catalog.catalog import Catalog
from launcher.catalog.selection import Dated, newest
from launcher.catalog.selector import PARITY, SAGEMAKER, UNSTATED, Key, usd_of, zoned_rows
from launcher.catalog.store import Store
from launcher.catalog.tables import FREE
from launcher.model.enums import Basis, Market, Payment, PurchaseOption
from launcher.model.record import record

SPOT_RANGE = "spot-range"
BILL_ITEM = "bill-item"
KINDS = (
    PurchaseOption.ON_DEMAND.value,
    PurchaseOption.SPOT.value,
    SPOT_RANGE,
    PurchaseOption.CAPACITY_BLOCK.value,
    PurchaseOption.TRAINING_PLAN.value,
    PurchaseOption.RESERVED.value,
    PurchaseOption.SAVINGS_PLAN.value,
    SAGEMAKER,
    BILL_ITEM,
)
"""The filters of a listing: the purchase options that have rows, and the other kinds."""
Wants = Callable[[str, str], bool]
"""Whether rows of a name and a region are requested."""


@record
class PriceRow:
    """One row of the listing of all known prices."""

    kind: str
    # The instance type, `ml.` type or bill item.
    name: str
    # `*` for rows that apply everywhere, `unstated` for those whose source names none.
    region: str
    # None if the row gives a reason for a missing price.
    usd: Decimal | None
    as_of: date
    basis: Basis | None
    source: str
    note: str
    zone: str = ""
    # The offering class, plan kind, SageMaker component, quantity tier or statistic.
    detail: str = ""
    term_years: int | None = None
    payment: str = ""
    unit: str = "instance-hour"
    market: Market | None = None
    # Whether the row prices candidates.
    current: bool = False
    # None without a reference day.
    age_days: int | None = None

    @property
    def key(self) -> Key:
        """The key of the row's price, without its date."""
        return Key(self.kind, self.name, self.region, self.zone, self.detail, self.term_years or 0, self.payment)


@record
class PriceChange:
    """The change of one price between two days; `before` is None for a new one, `after` for a removed one."""

    what: Literal["added", "removed", "changed"]
    before: PriceRow | None
    after: PriceRow | None


def rows(
    catalog: Catalog,
    *,
    instance_type: str | None = None,
    region: str | None = None,
    option: str | None = None,
    now: date | None = None,
) -> list[PriceRow]:
    """Rows known on the catalog's day, sorted by key and then by date.

    Args:
        catalog: has the rows.
        instance_type: this type only; its `ml.` rows are included, bill items are not.
        region: this region only; rows that apply everywhere or whose source names no region are included.
        option: one of KINDS; None: all.
        now: the day to which ages are counted; None: no ages.
    """

    def wants(name: str, place: str) -> bool:
        if instance_type is not None and name.removeprefix("ml.") != instance_type.removeprefix("ml."):
            return False
        return region is None or place in (region, EVERYWHERE, UNSTATED)

    listed = [row for kind in KINDS if option in (None, kind) for row in _read(catalog, kind, wants)]
    if now is not None:
        listed = [replace(row, age_days=(now - row.as_of).days) for row in listed]
    return sorted(listed, key=lambda row: (row.key, row.as_of))


def difference(
    catalog: Catalog,
    before: date,
    after: date,
    *,
    instance_type: str | None = None,
    region: str | None = None,
    option: str | None = None,
) -> list[PriceChange]:
    """The prices added, removed or changed in USD between two days; only rows that price candidates count."""

    def current(day: date) -> dict[Key, PriceRow]:
        listed = rows(catalog.at(day), instance_type=instance_type, region=region, option=option)
        return {row.key: row for row in listed if row.current}

    old, new = current(before), current(after)
    changes: list[PriceChange] = []
    for key in sorted(old.keys() | new.keys()):
        was, now = old.get(key), new.get(key)
        if was is None:
            changes.append(PriceChange(what="added", before=None, after=now))
        elif now is None:
            changes.append(PriceChange(what="removed", before=was, after=None))
        elif was.usd != now.usd:
            changes.append(PriceChange(what="changed", before=was, after=now))
    return changes


def _read(catalog: Catalog, kind: str, wants: Wants) -> Iterator[PriceRow]:
    if kind == SPOT_RANGE:
        yield from _ranges(catalog, wants)
        return
    if kind == BILL_ITEM:
        yield from _bill(catalog, wants)
        return
    for key in _keys(catalog.store, kind):
        if wants(key.name, key.region):
            yield from _compute(catalog, key)
    if kind == PurchaseOption.ON_DEMAND.value:
        yield from _unavailable(catalog, wants)


def _keys(store: Store, kind: str) -> Iterator[Key]:
    match kind:
        case PurchaseOption.RESERVED.value:
            yield from _term_keys(kind, store.reserved_instances)
        case PurchaseOption.SAVINGS_PLAN.value:
            plans: dict[str, str] = {equal: plan.value for plan, equal in PARITY.items()}
            derived = ((name, region, plans[code], years) for name, region, code, years in store.reserved_instances)
            yield from _term_keys(kind, dict.fromkeys((*derived, *store.savings_plans)))
        case "sagemaker":
            for (name, region), every in store.sagemaker.items():
                yield from (Key(kind, name, region, detail=zone) for zone in dict.fromkeys(row.zone for row in every))
        case _:
            for (name, region), every in zoned_rows(store, kind).items():
                yield from (Key(kind, name, region, zone) for zone in dict.fromkeys(row.zone for row in every))


def _term_keys(kind: str, terms: Iterable[tuple[str, str, str, str]]) -> Iterator[Key]:
    for name, region, detail, years in terms:
        yield from (Key(kind, name, region, "", detail, int(years), payment.value) for payment in Payment)


def _compute(catalog: Catalog, key: Key) -> Iterator[PriceRow]:
    """The rows of one compute price; rows of other SageMaker components only if one of them is the price.

    A regional spot price is listed under the region, not again under each zone that uses it.
    """
    winner, every = catalog.selector.row(key), catalog.selector.rows(key)
    if key.kind == PurchaseOption.SPOT.value:
        every = [row for row in every if row.zone == key.zone]
        winner = winner if key.zone else newest(every, usd_of, catalog.until)
    for row in every:
        elsewhere = key.kind == SAGEMAKER and row.zone != key.detail and row != winner
        if row.as_of > catalog.until or elsewhere or (key.term_years and not row.usd):
            continue
        spot = key.kind == PurchaseOption.SPOT.value
        yield _row(
            catalog,
            key.kind,
            (key.name, key.region),
            row,
            row.usd,
            zone=key.zone,
            detail=key.detail,
            term_years=key.term_years or None,
            payment=key.payment,
            market=catalog.selector.market(row, key.name, key.region) if spot else None,
            current=row == winner,
        )


def _row(catalog: Catalog, kind: str, place: tuple[str, str], dated: Dated, usd: str, **more: Any) -> PriceRow:
    return PriceRow(
        kind=kind,
        name=place[0],
        region=place[1],
        usd=Decimal(0) if usd == FREE else Decimal(usd) if usd else None,
        as_of=date.fromisoformat(dated.as_of),
        basis=Basis(dated.basis) if usd else None,
        source=catalog.store.source_title(dated.source),
        note=dated.note,
        **more,
    )


def _unavailable(catalog: Catalog, wants: Wants) -> Iterator[PriceRow]:
    for unavailable_type in catalog.unavailable_types.values():
        if wants(unavailable_type.name, EVERYWHERE) and unavailable_type.as_of.isoformat() <= catalog.until:
            yield PriceRow(
                kind=PurchaseOption.ON_DEMAND.value,
                name=unavailable_type.name,
                region=EVERYWHERE,
                usd=None,
                as_of=unavailable_type.as_of,
                basis=None,
                source=unavailable_type.source,
                note=unavailable_type.reason,
            )


def _ranges(catalog: Catalog, wants: Wants) -> Iterator[PriceRow]:
    for place, every in catalog.store.spot_ranges.items():
        if wants(*place):
            for row in every:
                if row.as_of <= catalog.until:
                    for detail, usd in (("min", row.usd_min), ("avg", row.usd_avg), ("max", row.usd_max)):
                        if usd:
                            yield _row(catalog, SPOT_RANGE, place, row, usd, detail=detail)


def _bill(catalog: Catalog, wants: Wants) -> Iterator[PriceRow]:
    for place, every in catalog.store.bill_items.items():
        if not wants(*place):
            continue
        chosen = current_tiers(every, catalog.until)
        for row in every:
            if row.as_of <= catalog.until:
                tier = f"{row.tier_from} to {row.tier_to}" if row.tier_to else f"from {row.tier_from}"
                detail = "" if tier == "from 0" else tier
                yield _row(catalog, BILL_ITEM, place, row, row.usd, detail=detail, unit=row.unit, current=row in chosen)
