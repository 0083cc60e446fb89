"""Prices and their changes: `slipway prices show` and `prices diff`, slipway.prices/1."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from functools import partial
from itertools import count, groupby, product
from string import ascii_lowercase

from launcher.answers.lines import fold
from launcher.answers.table import Column, render
from launcher.catalog.fetched_prices import plain as price_words
from launcher.catalog.listing import BILL_ITEM, SPOT_RANGE, PriceChange, PriceRow
from launcher.catalog.price_moves import percent
from launcher.catalog.selector import SAGEMAKER
from launcher.model.enums import Basis, Market, PurchaseOption
from launcher.model.units import number_of
from launcher.pricing.ages import ALLOWED_DAYS
from launcher.workflow.quote.prices import PriceFilter

NARROW = 100
MAX_ROWS, MAX_ROWS_UNFILTERED = 30, 10
"""Rows per section that are shown without --all."""
TITLES = {SPOT_RANGE: "spot over a region, for context", SAGEMAKER: "SageMaker", BILL_ITEM: "rest of the bill"}
COMMITMENTS = (PurchaseOption.RESERVED.value, PurchaseOption.SAVINGS_PLAN.value)
SHORT = {
    "compute": "comp.",
    "convertible": "conv.",
    "standard": "std.",
    "ec2-instance": "ec2",
    "sagemaker": "ml",
    "no-upfront": "none",
    "partial-upfront": "part",
    "all-upfront": "all",
}
PLACES = {"*": "everywhere", "unstated": "not stated"}
MARKETS = {Market.OPEN: "open", Market.FLOOR: "floor", Market.NONE: "none"}
TOO_OLD = "*"
HANGING = 4
"""Indentation in columns of continuation lines of a source or note, from its number or letter."""


def show_page(
    rows: Sequence[PriceRow],
    price_filter: PriceFilter,
    width: int,
    *,
    everything: bool,
    history: bool,
    as_of: date | None,
) -> list[str]:
    """The listing for a terminal of `width` columns."""
    if not rows:
        return ["", "  No price is known."]
    most = _max_rows(price_filter, everything=everything)
    sections = [(kind, list(members)) for kind, members in groupby(rows, key=lambda row: row.kind)]
    shown = [row for _, section in sections for row in section[:most]]
    numbers = {source: number for number, source in enumerate(dict.fromkeys(row.source for row in shown), start=1)}
    lines = ["", f"  {_headline(price_filter, len(rows), as_of)}"]
    for kind, section in sections:
        lines += ["", *_section(kind, section, section[:most], numbers, width, history=history)]
    lines += [
        "",
        *[piece for source, number in numbers.items() for piece in fold(f"  [{number}] {source}", width, HANGING)],
    ]
    return [*lines, *_legend(shown, width, history=history)]


def _max_rows(price_filter: PriceFilter, *, everything: bool) -> int | None:
    if everything:
        return None
    return MAX_ROWS_UNFILTERED if price_filter == PriceFilter() else MAX_ROWS


def _headline(price_filter: PriceFilter, number: int, as_of: date | None) -> str:
    parts = [price_filter.instance_type or "all types", price_filter.region or "all regions"]
    if price_filter.option:
        parts.append(_kind_title(price_filter.option))
    known = f", as known on {as_of}" if as_of else ""
    return f"{' · '.join(parts)} · {number_of(number, 'price')}{known}"


def _kind_title(kind: str) -> str:
    return TITLES.get(kind, kind.replace("-", " "))


def _title(kind: str) -> str:
    return _kind_title(kind) + (", $ per unit" if kind == BILL_ITEM else ", $ per instance-hour")


def _section(
    kind: str,
    every: Sequence[PriceRow],
    shown: Sequence[PriceRow],
    numbers: Mapping[str, int],
    width: int,
    *,
    history: bool,
) -> list[str]:
    lines = [f"  {_title(kind)}"]
    priced = [row for row in shown if row.usd is not None]
    if priced:
        columns: list[Column[PriceRow]] = [
            *_price_columns(kind, priced, short=width < NARROW),
            Column("$", lambda row: _price(row, ""), "point"),
            Column("as of", lambda row: row.as_of.isoformat()) if history else Column("age", _age, "right"),
            Column("basis", lambda row: row.basis.value if row.basis else ""),
        ]
        lines += _noted_table(columns, priced, numbers, width)
    lines += [piece for row in shown if row.usd is None for piece in fold(_unpriced_text(row, numbers), width)]
    return [*lines, *_more(len(shown), len(every))]


def _noted_table(
    columns: Sequence[Column[PriceRow]], rows: Sequence[PriceRow], numbers: Mapping[str, int], width: int
) -> list[str]:
    """A table with sources and notes: a note is in its row if all fit, else below the table with a letter."""
    source: Column[PriceRow] = Column("src", lambda row: _source(row, numbers))
    noted: Sequence[Column[PriceRow]] = [*columns, source, Column("note", lambda row: row.note, yields=0)]
    if not any(row.note for row in rows) or max(map(len, render(noted, rows, sys.maxsize))) <= width:
        return _under_items(render(noted, rows, width), rows, width)
    letters = dict(zip(dict.fromkeys(row.note for row in rows if row.note), _letters(), strict=False))
    lettered: Column[PriceRow] = Column("src", lambda row: f"{_source(row, numbers)}{letters.get(row.note, '')}")
    notes = [piece for note, letter in letters.items() for piece in fold(f"  {letter}: {note}", width, HANGING)]
    return [*_under_items(render([*columns, lettered], rows, width), rows, width), *notes]


def _letters() -> Iterator[str]:
    """The letters a to z, then aa to zz, and so on."""
    for length in count(1):
        yield from map("".join, product(ascii_lowercase, repeat=length))


def _more(shown: int, every: int) -> list[str]:
    line = f"  {shown} of {every:,} shown; --all for the rest, or --type, --region, --option"
    return [line] if shown < every else []


def _unpriced_text(row: PriceRow, numbers: Mapping[str, int]) -> str:
    where = PLACES.get(row.region, row.region)
    return f"  unpriced: {row.name} {where}: {row.note or 'no price is known'} ({row.as_of}) {_source(row, numbers)}"


def _price_columns(kind: str, rows: Sequence[PriceRow], *, short: bool) -> list[Column[PriceRow]]:
    """The columns that identify a price; in a narrow table, a bill item has one column."""
    start: Column[PriceRow] = Column(
        "from", lambda row: row.detail.removeprefix("from ").partition(" to ")[0] if row.detail else ""
    )
    if kind == BILL_ITEM and short:
        return [Column("item, unit, where", lambda row: f"  {_where(row)}"), start]
    if kind == BILL_ITEM:
        unit: Column[PriceRow] = Column("unit", lambda row: row.unit, shrinks=True)
        return [Column("item", lambda row: row.name), Column("where", _where), unit, start]
    columns: list[Column[PriceRow]] = [
        Column("type", lambda row: row.name),
        Column("where", lambda row: _where(row, zone=short)),
    ]
    if not short and any(row.zone for row in rows):
        columns.append(Column("zone", lambda row: row.zone, yields=1))
    more: dict[str, Column[PriceRow]] = {
        PurchaseOption.SPOT.value: Column("market", lambda row: MARKETS[row.market] if row.market else ""),
        SPOT_RANGE: Column("of", lambda row: row.detail),
        SAGEMAKER: Column("for", lambda row: row.detail),
        **dict.fromkeys(COMMITMENTS, Column("term, upfront" if short else "term", lambda row: _term(row, short=short))),
    }
    return [*columns, more[kind]] if kind in more else columns


def _under_items(table: Sequence[str], rows: Sequence[PriceRow], width: int) -> list[str]:
    """A table; in a narrow one, with name and unit of each bill item above its rows."""
    if width >= NARROW or rows[0].kind != BILL_ITEM:
        return list(table)
    title, rule, *body, end = table
    lines, above = [title, rule], ""
    for row, line in zip(rows, body, strict=True):
        item = f"  {row.name}, {row.unit}"
        lines += [line] if item == above else [item, line]
        above = item
    return [*lines, end]


def _where(row: PriceRow, *, zone: bool = False) -> str:
    return row.zone if zone and row.zone else PLACES.get(row.region, row.region)


def _term(row: PriceRow, *, short: bool) -> str:
    if short:
        return f"{SHORT.get(row.detail, row.detail)} {row.term_years}y {SHORT[row.payment]}"
    return f"{row.detail} {row.term_years}y {row.payment.replace('-', ' ')}"


def _age(row: PriceRow) -> str:
    """Days since the price was read, with a mark if a launch would refuse it."""
    days = max(0, row.age_days or 0)
    allowed = ALLOWED_DAYS.get(PurchaseOption(row.kind)) if row.kind in set(PurchaseOption) else None
    return f"{days} d{TOO_OLD if allowed is not None and days > allowed else ' '}"


def _source(row: PriceRow, numbers: Mapping[str, int]) -> str:
    return f"[{numbers[row.source]}]"


def _legend(rows: Sequence[PriceRow], width: int, *, history: bool) -> list[str]:
    lines = []
    if any(row.basis is Basis.UNVERIFIED for row in rows):
        lines.append("unverified: one source that could not be confirmed; it is shown and prices nothing.")
    if any(row.basis is Basis.DERIVED for row in rows):
        lines.append("derived: computed from another price or assumed equal to it; the note says how.")
    if any(row.market in (Market.FLOOR, Market.NONE) for row in rows):
        lines.append("market none: the spot price is on demand's own; floor: a tenth of it. Neither is an offer.")
    if not history and any(_age(row).endswith(TOO_OLD) for row in rows):
        lines.append("*: older than a launch allows (spot 2 days, Capacity Blocks 14, the others 180).")
    return ["", *(piece for line in lines for piece in fold(f"  {line}", width))] if lines else []


def diff_page(
    changes: Sequence[PriceChange], price_filter: PriceFilter, days: tuple[date, date], width: int, *, everything: bool
) -> list[str]:
    """The changes between two days for a terminal of `width` columns: changes first, the largest on top."""
    before, after = days
    counts = {action: sum(change.what == action for change in changes) for action in ("changed", "removed", "added")}
    counted = ", ".join(f"{number:,} {action}" for action, number in counts.items())
    lines = ["", f"  {before} to {after} · {counted}"]
    most = _max_rows(price_filter, everything=everything)
    for kind, members in groupby(changes, key=lambda change: changed_row(change).kind):
        section = sorted(members, key=_weight)
        shown = section[:most]
        lines += ["", f"  {_title(kind)}", *_changes(kind, shown, width), *_more(len(shown), len(section))]
    return lines


def changed_row(change: PriceChange) -> PriceRow:
    """The row of a change: the later one, if it still exists."""
    latest = change.after or change.before
    if latest is None:
        message = "a change without a before and an after"
        raise ValueError(message)
    return latest


def _weight(change: PriceChange) -> tuple[int, float]:
    share = change_percent(change)
    return ("changed", "removed", "added").index(change.what), -abs(share) if share is not None else 0.0


def change_percent(change: PriceChange) -> float | None:
    """The change of the price; None without both prices."""
    if change.before and change.after and change.before.usd and change.after.usd is not None:
        return percent(change.before.usd, change.after.usd)
    return None


def _changes(kind: str, changes: Sequence[PriceChange], width: int) -> list[str]:
    rows = [changed_row(price_change) for price_change in changes]
    columns: list[Column[PriceChange]] = [
        Column(column.title, partial(_row_value, column), column.align, column.yields, column.shrinks)
        for column in _price_columns(kind, rows, short=width < NARROW)
    ]
    columns += [
        Column("before", lambda change: _price(change.before, "new"), "point"),
        Column("after", lambda change: _price(change.after, "gone"), "point"),
        Column("change", _percent, "right"),
        Column("read on", lambda change: changed_row(change).as_of.isoformat(), yields=2),
    ]
    return _under_items(render(columns, changes, width), rows, width)


def _row_value(column: Column[PriceRow], change: PriceChange) -> str:
    return column.cell(changed_row(change))


def _percent(change: PriceChange) -> str:
    share = change_percent(change)
    return "" if share is None else f"{share:+.1f} %"


def _price(row: PriceRow | None, absent: str) -> str:
    if row is None or row.usd is None:
        return absent
    return price_words(row.usd) if row.usd else "free"
