"""Unit prices of the other lines of a bill, with their quantity tiers."""

from collections.abc import Sequence
from decimal import Decimal

from launcher.catalog.selection import newest, price_of
from launcher.catalog.store import Store, TierRow
from launcher.catalog.tables import FREE
from launcher.model.enums import Basis
from launcher.model.money import Price, Tier, Unpriced

_READ = frozenset((Basis.LISTED.value, Basis.DERIVED.value))
_MEMORY = frozenset((Basis.MEMORY.value,))
EVERYWHERE = "*"
"""The region of an item with the same price in all regions."""


def newer_rows(regional: Sequence[TierRow], everywhere: Sequence[TierRow], until: str) -> Sequence[TierRow]:
    """A region's rows of an item, or those of all regions if they are newer; tiers of both never mix."""
    days = [
        max((row.as_of for row in rows if row.as_of <= until and row.basis in _READ), default="")
        for rows in (regional, everywhere)
    ]
    return everywhere if not regional or days[1] > days[0] else regional


def price_item(item: str, rows: Sequence[TierRow], store: Store, until: str) -> Price | Unpriced:
    """The price of one item in one region from the rows of its tiers.

    Each tier is priced by its newest listed or derived row, or by a row from memory if it has no other. Quantities
    below the first tier are free. The last known tier is open-ended; tier prices fall, so any error is upwards.
    """
    chosen = current_tiers(rows, until)
    if not chosen:
        return Unpriced(reason=_reason(item, rows, until))
    first = chosen[0]
    usd = Decimal(0) if first.usd == FREE else Decimal(first.usd)
    oldest = min(row.as_of for row in chosen)
    return price_of(first, str(usd), store, note=_remarks(chosen), as_of=oldest, tiers=_tiers(chosen))


def current_tiers(rows: Sequence[TierRow], until: str) -> list[TierRow]:
    """The row that prices each tier on `until`, lowest tier first, up to the first open-ended tier."""
    chosen: list[TierRow] = []
    for start in sorted({Decimal(row.tier_from) for row in rows}):
        same = [row for row in rows if Decimal(row.tier_from) == start]
        row = newest(same, _number, until) or newest(same, _number, until, _MEMORY)
        if row is not None:
            chosen.append(row)
        if row is not None and not row.tier_to:
            break
    return chosen


def _number(row: TierRow) -> str:
    return "0" if row.usd == FREE else row.usd


def _tiers(rows: Sequence[TierRow]) -> tuple[Tier, ...]:
    """Tiers from zero without an end; empty if one price applies to every quantity."""
    starts = [Decimal(row.tier_from) for row in rows]
    if len(rows) == 1 and not starts[0]:
        return ()
    ends: list[Decimal | None] = [*starts[1:], None]
    tiers = [
        Tier(start=start, end=end, usd=Decimal(_number(row)))
        for start, end, row in zip(starts, ends, rows, strict=True)
    ]
    if starts[0]:
        tiers.insert(0, Tier(start=Decimal(0), end=starts[0], usd=Decimal(0)))
    return tuple(tiers)


def _remarks(rows: Sequence[TierRow]) -> str:
    remarks = []
    if rows[0].usd == FREE:
        remarks.append("free of charge")
    if len(rows) > 1 and any(row.basis != rows[0].basis for row in rows[1:]):
        weaker = next(row for row in rows[1:] if row.basis != rows[0].basis)
        remarks.append(f"{weaker.basis} above {weaker.tier_from} {weaker.unit}")
    if rows[-1].tier_to:
        remarks.append(f"no price is known above {rows[-1].tier_to} {rows[-1].unit}: the last one is used")
    return "; ".join(remarks)


def _reason(item: str, rows: Sequence[TierRow], until: str) -> str:
    if not rows:
        return f"no price of {item} is known in this region"
    early = [row for row in rows if row.as_of <= until]
    if not early:
        return f"no price of {item} is known on or before {until}: the first is of {min(row.as_of for row in rows)}"
    return early[0].note or f"no price of {item} is known"
