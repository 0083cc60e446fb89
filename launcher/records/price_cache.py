"""The user's price cache: files in the catalog's format, in addition to the shipped snapshot, each written atomically.

A refresh stores every answer immediately and records the query, so the next refresh continues an unfinished one.
"""

import fcntl
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from launcher.agent import safe_json
from launcher.catalog import tables
from launcher.catalog.fetched_prices import SOURCE_ROWS, FetchedPrice, FetchedPrices, file_rows
from launcher.catalog.regular_file import read_regular
from launcher.catalog.tables import Table
from launcher.model.errors import ImpossibleError
from launcher.model.record import record
from launcher.records.run_folder import write_whole

RESUMED_FOR = timedelta(hours=1)
"""How long the answers of an unfinished refresh count as fresh: a choice of this project."""
SPOT_RETENTION = timedelta(days=90)
"""How long spot prices are retained: the length of EC2's own history."""
PRICE_FILES = (*tables.PRICE_TABLES, tables.SOURCES)
JOURNAL = "unfinished.json"

FileRow = tuple[str, ...]


@record
class PriceCache:
    """The cache in one folder. Several processes may write it: each change holds a lock."""

    folder: Path

    def keep(self, rates: Iterable[FetchedPrice], as_of: date) -> None:
        """Add prices of a day; see `keep_answers`."""
        self.keep_answers((FetchedPrices(rates=tuple(rates)),), as_of)

    def keep_answers(self, answers: Iterable[FetchedPrices], today: date) -> None:
        """Add the answers of a day; they replace prices of the same key and day, older prices are history.

        Raises:
            UnreadableInputError: an existing file has another format.
        """
        with self._lock():
            self._write(tables.SOURCES, SOURCE_ROWS)
            rows_by_table: dict[Table, list[FileRow]] = {}
            for answer in answers:
                for table, rows in file_rows(answer, answer.as_of or today).items():
                    rows_by_table.setdefault(table, []).extend(rows)
            for table, rows in rows_by_table.items():
                self._write(table, merge_rows(table, tables.read_checked(table, self.folder, today), rows, today))

    def take(self, folder: Path, today: date) -> int:
        """Add the rows of another price folder, and return their number.

        Raises:
            UnreadableInputError: a file of either folder has another format, or a future date.
        """
        with self._lock():
            read = {table: [tuple(row) for row in tables.read_checked(table, folder, today)] for table in PRICE_FILES}
            for table, rows in read.items():
                before = tables.read_checked(table, self.folder, today)
                if table is tables.SOURCES:
                    self._write(table, {row[0]: row for row in (*rows, *map(tuple, before), *SOURCE_ROWS)}.values())
                elif rows:
                    self._write(table, merge_rows(table, before, rows, today))
        return sum(len(rows) for table, rows in read.items() if table is not tables.SOURCES)

    def answered_queries(self, now: datetime) -> frozenset[str]:
        """The queries that an unfinished refresh of the last hour has answers for."""
        begun, answered = self._journal()
        fresh = begun is not None and timedelta(0) <= now - begun <= RESUMED_FOR
        return frozenset(answered) if fresh else frozenset()

    def note(self, questions: Iterable[str], now: datetime) -> None:
        """Record that the answers of some queries are stored."""
        with self._lock():
            before = self.answered_queries(now)
            begun = self._journal()[0] if before else now
            state = {"begun": (begun or now).isoformat(), "answered": sorted({*before, *questions})}
            write_whole(self.folder / JOURNAL, json.dumps(state, indent=1) + "\n")

    def finish(self) -> None:
        """Delete the record of queries, so that the next refresh repeats all queries."""
        with self._lock():
            (self.folder / JOURNAL).unlink(missing_ok=True)

    def _journal(self) -> tuple[datetime | None, list[str]]:
        """The start of the unfinished refresh and its queries; empty without one or if the record is unreadable."""
        path = self.folder / JOURNAL
        try:
            state = safe_json.loads(read_regular(path, safe_json.MAX_BYTES))
            return datetime.fromisoformat(state["begun"]).astimezone(UTC), [str(name) for name in state["answered"]]
        except (KeyError, OSError, TypeError, ValueError):
            return None, []

    def _write(self, table: Table, rows: Iterable[FileRow]) -> None:
        path = self.folder / table.path
        path.parent.mkdir(parents=True, exist_ok=True)
        for leftover in path.parent.glob(f".{path.name}.*"):
            # What a killed process had not finished; no other writes now.
            leftover.unlink(missing_ok=True)
        write_whole(path, tables.encode(table, rows))

    @contextmanager
    def _lock(self) -> Iterator[None]:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with (self.folder / ".lock").open("w", encoding="utf-8") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                yield
        except OSError as problem:
            raise ImpossibleError(
                f"cannot write the price cache {self.folder}: {problem.strerror or problem}",
                hint="set XDG_CACHE_HOME to a folder that can be written",
            ) from problem


def merge_rows(
    table: Table, before: Iterable[Sequence[str]], new: Iterable[Sequence[str]], today: date
) -> list[FileRow]:
    """The rows of a file merged with new ones: one a key and day; of equal consecutive prices only first and last day.

    Spot prices are retained for `SPOT_RETENTION` before `today`.

    >>> rows = [("p5", "us-east-1", "", "55", f"2026-11-{day}", "listed", "s", "") for day in ("17", "18", "19")]
    >>> [row[4] for row in merge_rows(tables.ON_DEMAND, rows[:2], rows[2:], date(2026, 11, 19))]
    ['2026-11-17', '2026-11-19']
    """
    dated = table.columns.index("as_of")
    histories: dict[FileRow, dict[str, FileRow]] = {}
    for row in (*before, *new):
        cells = tuple(row)
        histories.setdefault(cells[: table.keys], {})[cells[dated]] = cells
    oldest = (today - SPOT_RETENTION).isoformat() if table is tables.SPOT else ""
    result: list[FileRow] = []
    for history in histories.values():
        rows = [history[day] for day in sorted(history) if day >= oldest]
        prices = [row[table.keys : dated] for row in rows]
        result += [
            row
            for index, row in enumerate(rows)
            if index in (0, len(rows) - 1) or not prices[index - 1] == prices[index] == prices[index + 1]
        ]
    return result
