"""Implausible prices of the user's cache, far from all shipped ones or less than half: shown, not trusted alone.

A truncated price list, a misplaced decimal point or a manually edited file would otherwise pass every gate as the
cheapest price. Slipway accepts a price that a reading on another day confirms. Slipway also accepts a smaller fall,
and notes the earlier price.
"""

from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal

from launcher.catalog import tables
from launcher.catalog.tables import FREE, Table, priced_columns
from launcher.model.enums import Basis

FAR = 4
"""Factor below the lowest or above the highest shipped price of an item, over all regions, that counts as far: a choice
of this project. AWS's largest cut for accelerators so far was 45 % (June 2025); spot moves within the shipped range."""
FELL = Decimal("0.2")
"""Share of the earlier price from which a fall is shown: a choice of this project."""
HALVED = Decimal("0.5")
"""Share from which a fall needs a second reading, except for spot, whose market can fall that far."""
ALIKE = Decimal("1.25")
"""Maximum ratio between two readings that confirm each other."""
FALL_NOTE = "fell by "
"""Prefix of the note of a price that fell by more than FELL."""

_MOVES = (tables.SPOT, tables.SPOT_RANGES)
_Bounds = dict[tuple[str, str], tuple[Decimal, Decimal]]


def mark_implausible(
    table: Table, shipped: Iterable[Sequence[str]], cached: Iterable[Sequence[str]]
) -> Iterator[list[str]]:
    """The rows of a cache; implausible rows are marked as unverified, with the reason in their note.

    `shipped` rows are trusted; `cached` ones were read by `tables.read_checked`.
    """
    rows = [list(row) for row in cached]
    if not rows or "basis" not in table.columns:
        yield from rows
        return
    before = [list(row) for row in shipped]
    bounds = _bounds(table, before)
    readings: dict[tuple[str, ...], list[list[str]]] = {}
    for row in rows:
        readings.setdefault(tuple(row[: table.keys]), []).append(row)
    believed = _believed_rows(table, (row for row in before if tuple(row[: table.keys]) in readings))
    dated = table.columns.index("as_of")
    for key, same in readings.items():
        for row in sorted(same, key=lambda row: row[dated]):
            _mark_if_implausible(table, row, bounds, same, believed.setdefault(key, []))
    yield from rows


def _mark_if_implausible(
    table: Table, row: list[str], bounds: _Bounds, readings: Iterable[Sequence[str]], believed: list[Sequence[str]]
) -> None:
    """Mark one row as unverified, or add it to the trusted ones; its note has the reason, or the fall."""
    basis, note = table.columns.index("basis"), table.columns.index("note")
    fall, description = _fall(table, row, believed)
    reason, alike = _reason(table, row, bounds), Decimal(FAR)
    if not reason and fall > HALVED and table not in _MOVES:
        reason, alike = f"{description}: not believed alone", ALIKE
    if reason and not _is_confirmed(table, row, readings, alike):
        row[basis] = Basis.UNVERIFIED.value
    else:
        reason = f"{FALL_NOTE}{description}" if fall > FELL else ""
        believed.append(list(row))
    row[note] = "; ".join(part for part in (row[note], reason) if part)


def _fall(table: Table, row: Sequence[str], believed: Iterable[Sequence[str]]) -> tuple[Decimal, str]:
    """The fall of a row against the newest trusted row of an earlier day: as a share, and in words.

    The share is 0 without a fall or without such a row.
    """
    dated, prices = table.columns.index("as_of"), dict(_prices(table, row))
    earlier = max((past for past in believed if past[dated] < row[dated]), key=lambda past: past[dated], default=None)
    if earlier is None:
        return Decimal(0), ""
    falls = [
        (1 - prices[name] / usd, prices[name], usd) for name, usd in _prices(table, earlier) if usd and name in prices
    ]
    share, now, then = max(falls, default=(Decimal(0), Decimal(0), Decimal(0)))
    return max(share, Decimal(0)), f"{share:.0%} from {then:f} ({earlier[dated]}) to {now:f}"


def _believed_rows(table: Table, rows: Iterable[list[str]]) -> dict[tuple[str, ...], list[Sequence[str]]]:
    by_key: dict[tuple[str, ...], list[Sequence[str]]] = {}
    for row in rows:
        if row[table.columns.index("basis")] != Basis.UNVERIFIED.value:
            by_key.setdefault(tuple(row[: table.keys]), []).append(row)
    return by_key


def _prices(table: Table, row: Sequence[str]) -> Iterator[tuple[str, Decimal]]:
    for column in priced_columns(table):
        text = row[table.columns.index(column)]
        if text and text != FREE:
            yield column, Decimal(text)


def _bounds(table: Table, shipped: Iterable[Sequence[str]]) -> _Bounds:
    """The lowest and highest shipped price of each item, over all regions and days."""
    bounds: _Bounds = {}
    for row in shipped:
        for column, usd in _prices(table, row):
            low, high = bounds.get((row[0], column), (usd, usd))
            bounds[row[0], column] = (min(low, usd), max(high, usd))
    return bounds


def _reason(table: Table, row: Sequence[str], bounds: _Bounds) -> str:
    for column, usd in _prices(table, row):
        known = bounds.get((row[0], column))
        if known is not None and not known[0] / FAR <= usd <= known[1] * FAR:
            return f"far outside what is known of {row[0]}, {known[0]:f} to {known[1]:f}: not believed alone"
    return ""


def _is_confirmed(table: Table, row: Sequence[str], readings: Iterable[Sequence[str]], alike: Decimal) -> bool:
    """Whether another reading of the same item in the same place gives a similar price on another day."""
    dated, prices = table.columns.index("as_of"), dict(_prices(table, row))
    for other in readings:
        theirs = dict(_prices(table, other))
        same = theirs.keys() == prices.keys() and all(
            prices[column] / alike <= theirs[column] <= prices[column] * alike for column in prices
        )
        if same and other[dated] != row[dated]:
            return True
    return False
