"""The price rows themselves, for a person to read: current ones, history, and those that price nothing."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from typing import Literal

from launcher.catalog.bill import EVERYWHERE, current_tiers
from launcher.catalog.catalog import UNSTATED, Catalog
from launcher.catalog.commitments import PARITY, rate_of
from launcher.catalog.market import market_of
from launcher.catalog.selection import Dated, newest
from launcher.catalog.store import Row, TermRow, Terms, Zoned
from launcher.catalog.tables import FREE
from launcher.model.enums import Basis, Market, Payment, PurchaseOption

SAGEMAKER = "sagemaker"
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
"""What a listing can be narrowed to: the purchase options that have rows, and the kinds that are none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceRow:
    """One row. `usd` is None where the row says why there is no price; `current` marks the rows that price candidates.

    `name` is the instance type, `ml.` type or bill item; `detail` the offering class, plan kind, SageMaker component,
    quantity tier or statistic; `age_days` is None without a day to count from. The region is `*` for rows that hold
    everywhere and `unstated` for those whose source names none.
    """

    kind: str
    name: str
    region: str
    usd: Decimal | None
    as_of: date
    basis: Basis | None
    source: str
    note: str
    zone: str = ""
    detail: str = ""
    term_years: int | None = None
    payment: str = ""
    unit: str = "instance-hour"
    market: Market | None = None
    current: bool = False
    age_days: int | None = None

    @property
    def key(self) -> tuple[str, str, str, str, str, int, str]:
        """What the row is the price of, whatever its date."""
        return (self.kind, self.name, self.region, self.zone, self.detail, self.term_years or 0, self.payment)


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceChange:
    """What became of one price between two days; `before` is None for a new one, `after` for one that is gone."""

    what: Literal["added", "removed", "changed"]
    before: PriceRow | None
    after: PriceRow | None


Wants = Callable[[str, str], bool]
"""Whether rows of a name and a region are asked for."""


def rows(
    catalog: Catalog,
    *,
    instance_type: str | None = None,
    region: str | None = None,
    option: str | None = None,
    now: date | None = None,
) -> list[PriceRow]:
    """Rows known on the catalog's day, sorted by what they price and then by date.

    Args:
        catalog: where the rows are.
        instance_type: this type only; its `ml.` rows are included, bill items are not.
        region: this region only; rows that hold everywhere or whose source names no region are included.
        option: one of KINDS; None: all.
        now: the day ages are counted from; None: no ages.
    """

    def wants(name: str, place: str) -> bool:
        if instance_type is not None and name.removeprefix("ml.") != instance_type.removeprefix("ml."):
            return False
        return region is None or place in (region, EVERYWHERE, UNSTATED)

    found = [row for kind in KINDS if option in (None, kind) for row in _read(catalog, kind, wants)]
    if now is not None:
        found = [replace(row, age_days=(now - row.as_of).days) for row in found]
    return sorted(found, key=lambda row: (row.key, row.as_of))


def difference(
    catalog: Catalog,
    before: date,
    after: date,
    *,
    instance_type: str | None = None,
    region: str | None = None,
    option: str | None = None,
) -> list[PriceChange]:
    """Which prices came, went or changed in USD between two days; only rows that price candidates on them count."""

    def current(day: date) -> dict[tuple[str, str, str, str, str, int, str], PriceRow]:
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
    """The rows of one kind whose name and region are wanted."""
    store = catalog.store
    match kind:
        case PurchaseOption.ON_DEMAND.value:
            yield from _zoned(catalog, kind, store.on_demand, wants)
            yield from _unavailable(catalog, wants)
        case PurchaseOption.SPOT.value:
            yield from _zoned(catalog, kind, store.spot, wants)
        case PurchaseOption.CAPACITY_BLOCK.value:
            yield from _zoned(catalog, kind, store.capacity_blocks, wants)
        case PurchaseOption.TRAINING_PLAN.value:
            yield from _zoned(catalog, kind, store.training_plans, wants)
        case PurchaseOption.RESERVED.value:
            yield from _terms(catalog, kind, store.reserved, wants)
        case PurchaseOption.SAVINGS_PLAN.value:
            yield from _terms(catalog, kind, _plan_terms(catalog), wants)
        case "sagemaker":
            yield from _zoned(catalog, kind, store.sagemaker, wants)
        case "spot-range":
            yield from _ranges(catalog, wants)
        case _:
            yield from _bill(catalog, wants)


def _row(catalog: Catalog, kind: str, place: tuple[str, str], dated: Dated, usd: str) -> PriceRow:
    return PriceRow(
        kind=kind,
        name=place[0],
        region=place[1],
        usd=Decimal(0) if usd == FREE else Decimal(usd) if usd else None,
        as_of=date.fromisoformat(dated.as_of),
        basis=Basis(dated.basis) if usd else None,
        source=catalog.store.source_title(dated.source),
        note=dated.note,
    )


def _zoned(catalog: Catalog, kind: str, index: Zoned, wants: Wants) -> Iterator[PriceRow]:
    for place, every in index.items():
        if not wants(*place):
            continue
        spot = kind == PurchaseOption.SPOT.value
        against = catalog.store.on_demand.get(place, ()) if spot else ()
        winners = {
            row.zone: newest([each for each in every if each.zone == row.zone], _usd, catalog.until) for row in every
        }
        for row in every:
            if row.as_of <= catalog.until:
                shown = _row(catalog, kind, place, row, row.usd)
                yield replace(
                    shown,
                    zone="" if kind == SAGEMAKER else row.zone,
                    detail=row.zone if kind == SAGEMAKER else "",
                    market=market_of(row.usd, against) if spot else None,
                    current=row is winners[row.zone],
                )


def _unavailable(catalog: Catalog, wants: Wants) -> Iterator[PriceRow]:
    for each in catalog.unavailable_types.values():
        if wants(each.name, EVERYWHERE) and each.as_of.isoformat() <= catalog.until:
            yield PriceRow(
                kind=PurchaseOption.ON_DEMAND.value,
                name=each.name,
                region=EVERYWHERE,
                usd=None,
                as_of=each.as_of,
                basis=None,
                source=each.source,
                note=each.reason,
            )


def _terms(catalog: Catalog, kind: str, index: Terms, wants: Wants) -> Iterator[PriceRow]:
    for (name, region, detail, years), every in index.items():
        if not wants(name, region):
            continue
        for payment in Payment:
            usd = rate_of(payment)
            winner = newest(every, usd, catalog.until)
            for row in every:
                if usd(row) and row.as_of <= catalog.until:
                    shown = _row(catalog, kind, (name, region), row, usd(row))
                    yield replace(
                        shown, detail=detail, term_years=int(years), payment=payment.value, current=row is winner
                    )


def _plan_terms(catalog: Catalog) -> Terms:
    """Savings Plan rates read from AWS, and those derived from Reserved Instances."""
    found: dict[tuple[str, str, str, str], list[TermRow]] = {}
    for (name, region, offering_class, years), every in catalog.store.reserved.items():
        for kind, equal in PARITY.items():
            if equal == offering_class:
                note = f"assumed equal to the {offering_class} Reserved Instance"
                derived = [row._replace(basis=Basis.DERIVED.value, note=note) for row in every]
                found[name, region, kind.value, years] = derived
    for term, every in catalog.store.savings_plans.items():
        found.setdefault(term, []).extend(every)
    return found


def _ranges(catalog: Catalog, wants: Wants) -> Iterator[PriceRow]:
    for place, every in catalog.store.spot_ranges.items():
        if wants(*place):
            for row in every:
                if row.as_of <= catalog.until:
                    for detail, usd in (("min", row.usd_min), ("avg", row.usd_avg), ("max", row.usd_max)):
                        if usd:
                            yield replace(_row(catalog, SPOT_RANGE, place, row, usd), detail=detail)


def _bill(catalog: Catalog, wants: Wants) -> Iterator[PriceRow]:
    for place, every in catalog.store.bill_items.items():
        if not wants(*place):
            continue
        chosen = current_tiers(every, catalog.until)
        for row in every:
            if row.as_of <= catalog.until:
                tier = f"{row.tier_from} to {row.tier_to}" if row.tier_to else f"from {row.tier_from}"
                detail = "" if tier == "from 0" else tier
                yield replace(
                    _row(catalog, BILL_ITEM, place, row, row.usd), detail=detail, unit=row.unit, current=row in chosen
                )


def _usd(row: Row) -> str:
    return row.usd
