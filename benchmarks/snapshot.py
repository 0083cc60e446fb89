"""Writes new rows for the shipped prices from a refreshed cache, and prints the changes.

    slipway prices refresh --all      read prices into the cache
    python -m benchmarks.snapshot     update the shipped files (make snapshot does both)

Existing rows stay: a changed price adds a row, with the source and the day in the cache. An unchanged price gets a new
date only if its row is SEEN_AGAIN_DAYS old, so that a day without price changes changes little. Of the rows of earlier
snapshots, those between the first and the last of equal prices are removed, as in the cache. Spot prices change every
day; only their newest row stays. The output is the text of a proposal: the changes in the format of `slipway prices
diff`.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path

from launcher.answers.prices import diff_page
from launcher.catalog import tables
from launcher.catalog.load import Catalog, load
from launcher.catalog.store import Store
from launcher.catalog.tables import Table
from launcher.records.cache_folder import cache_folder
from launcher.records.price_cache import merge_rows
from launcher.records.price_snapshot import pack
from launcher.workflow.quote import prices

SEEN_AGAIN_DAYS = 14
"""Days after which an unchanged price gets a new date: a choice of this project."""
OWN = "aws-"
"""Prefix of the source ids that a refresh writes; all other rows were collected manually and are never changed."""
WIDTH = 120

Row = tuple[str, ...]
_CATALOG = load()
"""The catalog, for known places; it reads no file before its first use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The result of one snapshot: added rows by file, and the newest date before it."""

    added: dict[str, int]
    before: date


def write(cache: Path, data: Path, today: date) -> Snapshot:
    """Copy the rows of a cache into the shipped files of a folder, each file written completely or not at all.

    Raises:
        UnreadableInputError: a file of the cache or of the folder has an invalid format.
    """
    added: dict[str, int] = {}
    newest, used = "", set()
    for table in tables.PRICE_TABLES:
        shipped = [tuple(row) for row in tables.read_checked(table, data, today)]
        newest = max([newest, *(_of(table, row, "as_of") for row in shipped)])
        fresh = [tuple(row) for row in tables.read_checked(table, cache, today) if _is_placed(table, tuple(row))]
        new = _new(table, shipped, fresh)
        if new:
            by_hand = [row for row in shipped if not _of(table, row, "source").startswith(OWN)]
            collected = [row for row in shipped if _of(table, row, "source").startswith(OWN)]
            retained = (
                [*_newest(table, [*collected, *new]).values()]
                if table is tables.SPOT
                else merge_rows(table, collected, new, today)
            )
            _write(data / table.path, tables.encode(table, {*by_hand, *retained}))
            used |= {_of(table, row, "source") for row in new}
            added[table.path] = len(new)
    sources = [tuple(row) for row in tables.read_checked(tables.SOURCES, data, today)]
    known = {row[0] for row in sources}
    described = [tuple(row) for row in tables.read_checked(tables.SOURCES, cache, today)]
    more = [row for row in described if row[0] in used - known]
    if more:
        _write(data / tables.SOURCES.path, tables.encode(tables.SOURCES, [*sources, *more]))
    return Snapshot(added=added, before=date.fromisoformat(newest))


def _new(table: Table, shipped: Sequence[Row], fresh: Sequence[Row]) -> list[Row]:
    """The rows of a cache with new information: another price than the newest shipped one, or a much later day."""
    newest = _newest(table, shipped)
    dated = table.columns.index("as_of")
    found = []
    for row in sorted(fresh, key=lambda row: _of(table, row, "as_of")):
        old = newest.get(row[: table.keys])
        later = old is None or row[dated] > old[dated]
        if later and (
            old is None or row[table.keys : dated] != old[table.keys : dated] or _aged(old[dated], row[dated])
        ):
            found.append(row)
            newest[row[: table.keys]] = row
    return found


def _newest(table: Table, rows: Sequence[Row]) -> dict[Row, Row]:
    """The newest row of each price."""
    return {row[: table.keys]: row for row in sorted(rows, key=lambda row: _of(table, row, "as_of"))}


def _is_placed(table: Table, row: Row) -> bool:
    """Whether a row's zone is empty or known to the catalog: a new Local Zone needs a review first."""
    zone = _of(table, row, "zone") if "zone" in table.columns else ""
    return not zone or _CATALOG.region_of_az(zone) == _of(table, row, "region")


def _aged(before: str, after: str) -> bool:
    return (date.fromisoformat(after) - date.fromisoformat(before)).days >= SEEN_AGAIN_DAYS


def _of(table: Table, row: Row, column: str) -> str:
    return row[table.columns.index(column)]


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text(text, encoding="utf-8")
    new.replace(path)


def proposal(catalog: Catalog, snapshot: Snapshot, today: date) -> list[str]:
    """The changes of a snapshot, as the text of a proposal."""
    rows = [f"  {path}: {count:,} rows" for path, count in sorted(snapshot.added.items())]
    if not rows:
        return ["Nothing is new in the cache."]
    price_filter = prices.PriceFilter()
    changes = prices.diff(catalog, price_filter, min(snapshot.before, today), today)
    page = diff_page(changes, price_filter, (snapshot.before, today), WIDTH, everything=True)
    return [f"Prices as of {today}", "", *rows, "", "```", *page, "```"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the shipped files and print the proposal; return the exit code."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--data", type=Path, default=tables.SNAPSHOT, help="the folder of the shipped files")
    parser.add_argument("--archive", type=Path, help="write the cache's prices there too, for prices refresh --from")
    options = parser.parse_args(arguments)
    today = datetime.now(UTC).date()
    cache = cache_folder(os.environ)
    snapshot = write(cache, options.data, today)
    # The files have changed: the catalog that this process shares has read the former ones.
    print("\n".join(proposal(Catalog(Store()), snapshot, today)))
    if options.archive is not None:
        print(f"\n{options.archive.name}: SHA-256 {pack(cache, options.archive)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
