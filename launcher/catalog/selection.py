"""Selects the price from several dated rows.

The newest listed or derived row wins; on a tie the listed one, then the higher price. An unverified row is shown but
never prices anything; a row from memory prices a bill item if no better row exists. Age does not exclude a row.
"""

from collections.abc import Callable, Iterable
from datetime import date
from decimal import Decimal
from typing import TypeVar

from launcher.catalog.store import RangeRow, Row, Store, TermRow, TierRow
from launcher.model.enums import Basis, Market
from launcher.model.money import Price, Tier

FOREVER = "9999-12-31"
"""A limit that no row exceeds."""

LISTED = Basis.LISTED.value
PRICING = frozenset((Basis.LISTED.value, Basis.DERIVED.value))
"""Bases of rows that may price a candidate."""
_BASIS = {member.value: member for member in Basis}


Dated = Row | TermRow | RangeRow | TierRow
"""A row with its origin: ISO date, basis, id in sources.csv, remarks."""
AnyRow = TypeVar("AnyRow", bound=Dated)


def newest(
    rows: Iterable[AnyRow], usd: Callable[[AnyRow], str], until: str, bases: frozenset[str] = PRICING
) -> AnyRow | None:
    """The row that is the price on `until` (ISO date, included), by the rules above; None if no row can be.

    `usd` gives the row's price as text, empty without a price; `bases` are the values of Basis that may price.
    """
    able = [row for row in rows if row.basis in bases and row.as_of <= until and usd(row)]
    if not able[1:]:
        return able[0] if able else None
    # The first of equals.
    return max(able, key=lambda row: (row.as_of, row.basis == LISTED, float(usd(row))))


def newest_unverified(rows: Iterable[AnyRow], usd: Callable[[AnyRow], str], until: str) -> AnyRow | None:
    """The newest row that may be shown but prices nothing."""
    return newest(rows, usd, until, frozenset((Basis.UNVERIFIED.value,)))


def price_of(
    row: Dated,
    usd: str,
    store: Store,
    *,
    market: Market = Market.OPEN,
    note: str = "",
    as_of: str = "",
    tiers: tuple[Tier, ...] = (),
) -> Price:
    """A row as a price; `note` is appended to the row's own note, `as_of` replaces its date."""
    return Price(
        usd=Decimal(usd),
        source=store.source_title(row.source),
        basis=_BASIS[row.basis],
        as_of=date.fromisoformat(as_of or row.as_of),
        note="; ".join(part for part in (row.note, note) if part),
        tiers=tiers,
        market=market,
    )
