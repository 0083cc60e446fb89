"""Prices of the user's cache that lie far outside every one that was shipped: shown, and not believed alone.

A price list that was cut short, a decimal point in the wrong place or a file that somebody edited would otherwise pass
every gate, cheapest of all. A second reading of another day that says about the same is believed.
"""

from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal

from launcher.catalog.tables import FREE, Table, priced_columns
from launcher.model.enums import Basis

FAR = 4
"""How many times below the lowest or above the highest shipped price of a thing, over all its regions, is far: a choice
of this project. AWS's largest cut for accelerators so far was 45 % (June 2025); spot moves within the shipped range."""

_Bounds = dict[tuple[str, str], tuple[Decimal, Decimal]]


def judged(table: Table, shipped: Iterable[Sequence[str]], cached: Iterable[Sequence[str]]) -> Iterator[list[str]]:
    """The rows of a cache, those that are far outside marked as unverified, with the reason in their note.

    Args:
        table: whose rows they are.
        shipped: the snapshot's rows, which are believed.
        cached: rows that `tables.read_checked` took.
    """
    rows = [list(row) for row in cached]
    if not rows or "basis" not in table.columns:
        yield from rows
        return
    bounds = _bounds(table, shipped)
    readings: dict[tuple[str, ...], list[list[str]]] = {}
    for row in rows:
        readings.setdefault(tuple(row[: table.keys]), []).append(row)
    basis, note = table.columns.index("basis"), table.columns.index("note")
    for row in rows:
        reason = _reason(table, row, bounds)
        if reason and not _confirmed(table, row, readings[tuple(row[: table.keys])]):
            row[basis] = Basis.UNVERIFIED.value
            row[note] = "; ".join(part for part in (row[note], reason) if part)
        yield row


def _prices(table: Table, row: Sequence[str]) -> Iterator[tuple[str, Decimal]]:
    """The prices of a row by their columns."""
    for column in priced_columns(table):
        text = row[table.columns.index(column)]
        if text and text != FREE:
            yield column, Decimal(text)


def _bounds(table: Table, shipped: Iterable[Sequence[str]]) -> _Bounds:
    """The lowest and highest shipped price of each thing, over all regions and days."""
    found: _Bounds = {}
    for row in shipped:
        for column, usd in _prices(table, row):
            low, high = found.get((row[0], column), (usd, usd))
            found[row[0], column] = (min(low, usd), max(high, usd))
    return found


def _reason(table: Table, row: Sequence[str], bounds: _Bounds) -> str:
    """Why a row is not believed alone, "" where it is."""
    for column, usd in _prices(table, row):
        known = bounds.get((row[0], column))
        if known is not None and not known[0] / FAR <= usd <= known[1] * FAR:
            return f"far outside what is known of {row[0]}, {known[0]:f} to {known[1]:f}: not believed alone"
    return ""


def _confirmed(table: Table, row: Sequence[str], readings: Iterable[Sequence[str]]) -> bool:
    """Whether one of the readings of the same thing in the same place says about the same on another day."""
    dated, own = table.columns.index("as_of"), dict(_prices(table, row))
    for other in readings:
        theirs = dict(_prices(table, other))
        same = theirs.keys() == own.keys() and all(own[each] / FAR <= theirs[each] <= own[each] * FAR for each in own)
        if same and other[dated] != row[dated]:
            return True
    return False
