"""The catalog's files: their columns, and how to read and write them.

Every file is CSV in UTF-8 with one header line and sorted rows, one a line. The shipped snapshot and the user's cache
have the same files. `zone` is a zone id (spot), a local zone's name, or empty for the whole region.
"""

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, timedelta
from decimal import Decimal, InvalidOperation
from io import StringIO
from pathlib import Path

from launcher.catalog.regular_file import read_regular
from launcher.model.enums import Basis, SavingsPlanKind
from launcher.model.errors import UnreadableInputError
from launcher.model.record import record
from launcher.model.values import cut

SNAPSHOT = Path(__file__).parent / "data"
"""The folder of the shipped files."""

MAX_BYTES = 256 << 20
"""Limit of a file that Slipway did not ship; 90 days of spot prices of every zone have some 40 MB."""
MIN_USD, MAX_USD = Decimal("1e-12"), Decimal("1e9")
"""The limits of any price."""
LAST_DAY = "9999-12-31"
CLOCKS_APART = timedelta(days=1)
"""Maximum lead of a row over the local clock: the computer that wrote the row may have another clock."""

FREE = "free"
"""Written instead of a price if AWS charges nothing; a zero is never written."""
_PAYMENTS = ("no_upfront", "partial_upfront", "all_upfront")
_ORIGIN = ("as_of", "basis", "source", "note")
_BASES = tuple(member.value for member in Basis)
_CLOSED = {
    # Of the Spot Advisor: under 5 % a month, 5 to 10, 10 to 15, 15 to 20, above.
    "band": re.compile("[0-4]"),
    "savings_percent": re.compile("-?[0-9]{1,3}"),
    "offering_class": re.compile("standard|convertible"),
    "plan_kind": re.compile("|".join(member.value for member in SavingsPlanKind)),
    "term_years": re.compile("1|3"),
}
"""Columns with a closed vocabulary."""


@record
class Table:
    """One file: its path in a catalog folder and its columns; the first `keys` columns order the rows."""

    path: str
    columns: tuple[str, ...]
    keys: int


def _zoned_table(name: str) -> Table:
    columns = ("instance_type", "region", "zone", "usd", "as_of", "basis", "source", "note")
    return Table(path=f"prices/{name}.csv", columns=columns, keys=3)


ON_DEMAND = _zoned_table("on_demand")
SPOT = _zoned_table("spot")
CAPACITY_BLOCKS = _zoned_table("capacity_blocks")
TRAINING_PLANS = _zoned_table("training_plans")
SPOT_RANGES = Table(
    path="prices/spot_ranges.csv",
    columns=("instance_type", "region", "usd_min", "usd_avg", "usd_max", *_ORIGIN),
    keys=2,
)
RESERVED = Table(
    path="prices/reserved.csv",
    columns=("instance_type", "region", "offering_class", "term_years", *_PAYMENTS, *_ORIGIN),
    keys=4,
)
SAVINGS_PLANS = Table(
    path="prices/savings_plans.csv",
    columns=("instance_type", "region", "plan_kind", "term_years", *_PAYMENTS, *_ORIGIN),
    keys=4,
)
SAGEMAKER = Table(
    path="prices/sagemaker.csv",
    columns=("instance_type", "region", "component", "usd", *_ORIGIN),
    keys=3,
)
INTERRUPTIONS = Table(
    path="prices/interruptions.csv",
    columns=("instance_type", "region", "band", "savings_percent", "as_of", "source"),
    keys=2,
)
BILL_ITEMS = Table(
    path="prices/bill_items.csv",
    columns=("item", "region", "unit", "tier_from", "tier_to", "usd", *_ORIGIN),
    keys=4,
)
SOURCES = Table(path="sources.csv", columns=("id", "kind", "title", "note"), keys=1)

PRICE_TABLES = (
    ON_DEMAND,
    SPOT,
    SPOT_RANGES,
    CAPACITY_BLOCKS,
    TRAINING_PLANS,
    RESERVED,
    SAVINGS_PLANS,
    SAGEMAKER,
    INTERRUPTIONS,
    BILL_ITEMS,
)
"""The files that a cache folder may contain in addition to `sources.csv`; the snapshot has no Savings Plan rates."""


def read(table: Table) -> list[list[str]]:
    """The rows of one file of the shipped snapshot, without its header; empty if the file is missing."""
    return read_rows(table.path) if (SNAPSHOT / table.path).is_file() else []


def read_lines(table: Table) -> list[str]:
    """The lines of one file of the shipped snapshot, one for each row; empty if the file is missing."""
    return _lines(table.path)[1:] if (SNAPSHOT / table.path).is_file() else []


def cells_of(line: str) -> list[str]:
    """The cells of one line; most have no quoted cell."""
    return next(csv.reader([line])) if '"' in line else line.split(",")


def read_cells(path: str) -> list[dict[str, str]]:
    """The rows of one file of the shipped snapshot, each by its column names."""
    columns, *rows = _all_rows(path)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def read_rows(path: str) -> list[list[str]]:
    """The raw rows of one file of the shipped snapshot, without its header: for files with thousands of rows."""
    return _all_rows(path)[1:]


def _all_rows(path: str) -> list[list[str]]:
    """The rows of one file of the shipped snapshot with its header; each row is one line."""
    return list(map(cells_of, _lines(path)))


def _lines(path: str) -> list[str]:
    return (SNAPSHOT / path).read_text(encoding="utf-8").split("\n")[:-1]


def priced_columns(table: Table) -> tuple[str, ...]:
    """The columns that hold dollars."""
    return tuple(name for name in table.columns if name.startswith("usd") or name in _PAYMENTS)


def _word_fault(cells: Mapping[str, str]) -> str:
    for name, allowed in _CLOSED.items():
        if name in cells and not allowed.fullmatch(cells[name]):
            return f"{name} is {cells[name] or 'empty'}, expected {allowed.pattern.replace('|', ' or ')}"
    return ""


def read_checked(table: Table, folder: Path, today: date | None = None) -> Iterator[list[str]]:
    """The rows of one file that Slipway did not ship.

    `today`: the UTC day after which nothing can have been read; None: not checked.

    Raises:
        UnreadableInputError: a line is not a row of `table`; the error names the file and the line.
    """
    path = folder / table.path
    last = (today + CLOCKS_APART).isoformat() if today is not None else LAST_DAY
    try:
        text = read_regular(path, MAX_BYTES).decode()
    except FileNotFoundError:
        return
    except (OSError, ValueError) as cause:
        raise _unreadable(path, 0, str(cause)) from cause
    try:
        rows = csv.reader(StringIO(text, newline=""), strict=True)
        header = tuple(next(rows, ()))
        if header != table.columns:
            shown = ",".join(str(cut(name)) for name in header[: len(table.columns)])
            raise _unreadable(path, 1, f"columns are {shown}, expected {','.join(table.columns)}")
        for row in rows:
            problem = fault(table, row) or _ahead(table, row, last)
            if problem:
                raise _unreadable(path, rows.line_num, problem)
            yield row
    except csv.Error as cause:
        raise _unreadable(path, 0, str(cause)) from cause


def _ahead(table: Table, row: Sequence[str], last: str) -> str:
    """The error in the day of a valid row: a future row would win over all later readings."""
    day = row[table.columns.index("as_of")] if "as_of" in table.columns else ""
    return f"as_of is {day}, which is in the future: this computer's clock allows {last}" if day > last else ""


def fault(table: Table, row: Sequence[str]) -> str:
    """The error in one row, or "" if it is valid: number of cells, dates, basis, prices above zero, a source."""
    if len(row) != len(table.columns):
        return f"{len(row)} cells, expected {len(table.columns)}"
    cells = dict(zip(table.columns, row, strict=True))
    if table is SOURCES:
        return "" if cells["id"] and cells["title"] else "id and title must not be empty"
    prices = [text for text in (cells[name] for name in priced_columns(table)) if text]
    wrong = [text for text in prices if not _positive(text) and not (text == FREE and table is BILL_ITEMS)]
    if wrong:
        return f"price is {wrong[0]}, expected a decimal number above zero"
    if not _is_day(cells["as_of"]):
        return f"as_of is {cells['as_of'] or 'empty'}, expected a date such as 2026-11-20"
    if prices and cells.get("basis", Basis.LISTED.value) not in _BASES:
        return f"basis is {cells['basis'] or 'empty'}, expected one of {', '.join(_BASES)}"
    return _word_fault(cells) if cells["source"] else "source is empty, expected an id of sources.csv"


def encode(table: Table, rows: Iterable[Sequence[str]]) -> str:
    """The text of one file: header, rows sorted by key (numbers as numbers), then by date.

    Raises:
        ValueError: `read_checked` would reject a row.
    """
    sorted_rows = [tuple(row) for row in rows]
    for row in sorted_rows:
        problem = fault(table, row)
        if problem:
            message = f"{table.path}: {problem}: {','.join(row)}"
            raise ValueError(message)
    dated = table.columns.index("as_of") if "as_of" in table.columns else 0
    sorted_rows.sort(key=lambda row: ([_order(cell) for cell in row[: table.keys]], row[dated], row))
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows(sorted_rows)
    return text.getvalue()


def _order(cell: str) -> tuple[bool, Decimal, str]:
    return (False, Decimal(cell), "") if cell.isdecimal() else (True, Decimal(0), cell)


def _is_day(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def _positive(text: str) -> bool:
    try:
        value = Decimal(text)
    except InvalidOperation:
        return False
    return value.is_finite() and MIN_USD <= value <= MAX_USD


def _unreadable(path: Path, line: int, problem: str) -> UnreadableInputError:
    place = f"{path}, line {line}" if line else str(path)
    hint = f"delete {path} and run: slipway prices refresh"
    return UnreadableInputError(f"price cache: {place}: {problem}", hint=hint)
