"""The pages of `slipway prices show` and `slipway prices diff`: a section a kind of price, sources by number."""

from collections.abc import Callable, Mapping, Sequence
from datetime import date
from itertools import groupby

from launcher.catalog.fetched_prices import percent, plain
from launcher.catalog.listing import BILL_ITEM, SPOT_RANGE, PriceChange, PriceRow
from launcher.catalog.selector import SAGEMAKER
from launcher.cli.lines import wrapped
from launcher.cli.table import Column, align_points, render
from launcher.model.enums import Basis, Market, PurchaseOption
from launcher.pricing.ages import ALLOWED_DAYS
from launcher.workflow.quote.prices import Wanted

NARROW = 100
MOST, MOST_UNFILTERED = 30, 10
"""Rows of a section that are shown without --all."""
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
"""Columns that the further lines of a source are indented from its number."""


def show_page(
    rows: Sequence[PriceRow], wanted: Wanted, width: int, *, everything: bool, history: bool, as_of: date | None
) -> list[str]:
    """The listing for a terminal of `width` columns."""
    if not rows:
        return ["", "  No such price is known."]
    most = _most(wanted, everything=everything)
    sections = [(kind, list(members)) for kind, members in groupby(rows, key=lambda row: row.kind)]
    shown = [row for _, section in sections for row in section[:most]]
    numbers = {source: number for number, source in enumerate(dict.fromkeys(row.source for row in shown), start=1)}
    lines = ["", f"  {_headline(wanted, len(rows), as_of)}"]
    for kind, section in sections:
        lines += ["", *_section(kind, section, section[:most], numbers, width, history=history)]
    lines += ["", *_sources(numbers, width)]
    return [*lines, *_legend(shown, width, history=history)]


def _most(wanted: Wanted, *, everything: bool) -> int | None:
    """How many rows of a section are shown; None: all."""
    if everything:
        return None
    return MOST_UNFILTERED if wanted == Wanted() else MOST


def _headline(wanted: Wanted, number: int, as_of: date | None) -> str:
    """What is listed, in one line."""
    parts = [wanted.instance_type or "all types", wanted.region or "all regions"]
    if wanted.option:
        parts.append(_words(wanted.option))
    known = f", as known on {as_of}" if as_of else ""
    return f"{' · '.join(parts)} · {number:,} price{'' if number == 1 else 's'}{known}"


def _words(kind: str) -> str:
    return TITLES.get(kind, kind.replace("-", " "))


def _title(kind: str) -> str:
    """The heading of a section."""
    return _words(kind) + (", $ per unit" if kind == BILL_ITEM else ", $ per instance-hour")


def _section(
    kind: str,
    every: Sequence[PriceRow],
    shown: Sequence[PriceRow],
    numbers: Mapping[str, int],
    width: int,
    *,
    history: bool,
) -> list[str]:
    """The rows of one kind: a table of what has a price, then what has none, with the reason."""
    lines = [f"  {_title(kind)}"]
    priced = [row for row in shown if row.usd is not None]
    if priced:
        columns, cells = _table(kind, priced, numbers, history=history, short=width < NARROW)
        index = next(place for place, column in enumerate(columns) if column.title == "$")
        for line, text in zip(cells, align_points([line[index] for line in cells]), strict=True):
            line[index] = text
        lines += _under_items(render(columns, cells, width), priced, width)
    lines += [piece for row in shown if row.usd is None for piece in wrapped(_unpriced(row, numbers), width)]
    return [*lines, *_more(len(shown), len(every))]


def _more(shown: int, every: int) -> list[str]:
    """How to see what was left out, if anything was."""
    left = f"  {shown} of {every:,} shown; --all for the rest, or --type, --region, --option"
    return [left] if shown < every else []


def _unpriced(row: PriceRow, numbers: Mapping[str, int]) -> str:
    """Why there is no price."""
    where = PLACES.get(row.region, row.region)
    return f"  unpriced: {row.name} {where}: {row.note or 'no price is known'} ({row.as_of}) {_source(row, numbers)}"


def _table(
    kind: str, rows: Sequence[PriceRow], numbers: Mapping[str, int], *, history: bool, short: bool
) -> tuple[list[Column], list[list[str]]]:
    """Columns and cells of one kind."""
    what, cells = _what(kind, rows, short=short)
    dated = "as of" if history else "age"
    columns = [
        *what,
        Column(title="$", right=True),
        Column(title=dated, right=not history),
        Column(title="basis"),
        Column(title="src"),
    ]
    noted = any(row.note for row in rows)
    if noted:
        columns.append(Column(title="note", yields=3, shrinks=True))
    for row, line in zip(rows, cells, strict=True):
        day = row.as_of.isoformat() if history else _age(row)
        basis = row.basis.value if row.basis else ""
        line += [_price(row, ""), day, basis, _source(row, numbers), *([row.note] if noted else [])]
    return columns, cells


def _what(kind: str, rows: Sequence[PriceRow], *, short: bool) -> tuple[list[Column], list[list[str]]]:
    """The columns that say what a price is the price of, and their cells."""
    if kind == BILL_ITEM:
        return _bill_items(rows, short=short)
    columns = [Column(title="type"), Column(title="where"), Column(title="zone", yields=1)]
    if short:
        columns = columns[:2]
    cells = [[row.name, _where(row, zone=short), row.zone][: len(columns)] for row in rows]
    more: dict[str, tuple[str, Callable[[PriceRow], str]]] = {
        PurchaseOption.SPOT.value: ("market", lambda row: MARKETS[row.market] if row.market else ""),
        SPOT_RANGE: ("of", lambda row: row.detail),
        SAGEMAKER: ("for", lambda row: row.detail),
        **dict.fromkeys(COMMITMENTS, ("term, upfront" if short else "term", lambda row: _term(row, short=short))),
    }
    if kind in more:
        title, text = more[kind]
        columns.append(Column(title=title))
        for row, line in zip(rows, cells, strict=True):
            line.append(text(row))
    if not any(row.zone for row in rows) and not short:
        del columns[2]
        cells = [[*line[:2], *line[3:]] for line in cells]
    return columns, cells


def _bill_items(rows: Sequence[PriceRow], *, short: bool) -> tuple[list[Column], list[list[str]]]:
    """The columns of bill items; where there is little room, the place under the item."""
    start = Column(title="from")
    if not short:
        columns = [Column(title="item"), Column(title="where"), Column(title="unit", shrinks=True), start]
        return columns, [[row.name, _where(row), row.unit, _tier(row)] for row in rows]
    cells = [[f"  {_where(row)}, {row.unit}", _tier(row)] for row in rows]
    return [Column(title="item, where, unit", shrinks=True), start], cells


def _under_items(table: Sequence[str], rows: Sequence[PriceRow], width: int) -> list[str]:
    """A table with the name of each bill item above its rows, where there is little room; other tables as they are."""
    if width >= NARROW or rows[0].kind != BILL_ITEM:
        return list(table)
    title, rule, *body, end = table
    lines, above = [title, rule], ""
    for row, line in zip(rows, body, strict=True):
        lines += [line] if row.name == above else [f"  {row.name}", line]
        above = row.name
    return [*lines, end]


def _where(row: PriceRow, *, zone: bool = False) -> str:
    """The region, or the zone, which implies it."""
    return row.zone if zone and row.zone else PLACES.get(row.region, row.region)


def _tier(row: PriceRow) -> str:
    """Where a tier of quantity begins."""
    return row.detail.removeprefix("from ").partition(" to ")[0] if row.detail else ""


def _term(row: PriceRow, *, short: bool) -> str:
    """What is committed to, and how it is paid."""
    if short:
        return f"{SHORT.get(row.detail, row.detail)} {row.term_years}y {SHORT[row.payment]}"
    return f"{row.detail} {row.term_years}y {row.payment.replace('-', ' ')}"


def _age(row: PriceRow) -> str:
    """Days since the price was read, marked where a launch would refuse it."""
    days = max(0, row.age_days or 0)
    allowed = ALLOWED_DAYS.get(PurchaseOption(row.kind)) if row.kind in set(PurchaseOption) else None
    return f"{days} d{TOO_OLD if allowed is not None and days > allowed else ' '}"


def _source(row: PriceRow, numbers: Mapping[str, int]) -> str:
    return f"[{numbers[row.source]}]"


def _sources(numbers: Mapping[str, int], width: int) -> list[str]:
    """The sources by number."""
    lines = []
    for source, number in numbers.items():
        first, *more = wrapped(f"  [{number}] {source}", width - HANGING)
        lines += [first, *(" " * HANGING + piece for piece in more)]
    return lines


def _legend(rows: Sequence[PriceRow], width: int, *, history: bool) -> list[str]:
    """What the marks in the rows mean, as far as they occur."""
    lines = []
    if any(row.basis is Basis.UNVERIFIED for row in rows):
        lines.append("unverified: one source that could not be confirmed; it is shown and prices nothing.")
    if any(row.basis is Basis.DERIVED for row in rows):
        lines.append("derived: computed from another price or assumed equal to it; the note says how.")
    if any(row.market in (Market.FLOOR, Market.NONE) for row in rows):
        lines.append("market none: the spot price is on demand's own; floor: a tenth of it. Neither is an offer.")
    if not history and any(_age(row).endswith(TOO_OLD) for row in rows):
        lines.append("*: older than a launch allows (spot 2 days, Capacity Blocks 14, the others 180).")
    return ["", *(piece for line in lines for piece in wrapped(f"  {line}", width))] if lines else []


def diff_page(
    changes: Sequence[PriceChange], wanted: Wanted, days: tuple[date, date], width: int, *, everything: bool
) -> list[str]:
    """What changed between two days for a terminal of `width` columns: changes first, the largest on top."""
    before, after = days
    counts = {what: sum(each.what == what for each in changes) for what in ("changed", "removed", "added")}
    told = ", ".join(f"{number:,} {what}" for what, number in counts.items())
    lines = ["", f"  {before} to {after} · {told}"]
    most = _most(wanted, everything=everything)
    for kind, members in groupby(changes, key=lambda each: _row(each).kind):
        section = sorted(members, key=_weight)
        shown = section[:most]
        lines += ["", f"  {_title(kind)}", *_changes(kind, shown, width), *_more(len(shown), len(section))]
    return lines


def _row(change: PriceChange) -> PriceRow:
    """The side of a change that there is, the newer first."""
    found = change.after or change.before
    if found is None:
        message = "a change without a before and an after"
        raise ValueError(message)
    return found


def _weight(change: PriceChange) -> tuple[int, float]:
    """Changes by size, then what is gone, then what is new."""
    share = _share(change)
    return ("changed", "removed", "added").index(change.what), -abs(share) if share is not None else 0.0


def _share(change: PriceChange) -> float | None:
    """The change in percent, where there are two prices."""
    if change.before and change.after and change.before.usd and change.after.usd is not None:
        return percent(change.before.usd, change.after.usd)
    return None


def _changes(kind: str, changes: Sequence[PriceChange], width: int) -> list[str]:
    """A table of changes of one kind."""
    columns, cells = _what(kind, [_row(each) for each in changes], short=width < NARROW)
    columns += [
        Column(title="before", right=True),
        Column(title="after", right=True),
        Column(title="change", right=True),
        Column(title="read on", yields=2),
    ]
    sides = [[_price(each.before, "new"), _price(each.after, "gone")] for each in changes]
    aligned = [align_points([side[index] for side in sides]) for index in (0, 1)]
    for change, line, was, now in zip(changes, cells, *aligned, strict=True):
        share = _share(change)
        line += [was, now, "" if share is None else f"{share:+.1f} %", _row(change).as_of.isoformat()]
    return _under_items(render(columns, cells, width), [_row(each) for each in changes], width)


def _price(row: PriceRow | None, absent: str) -> str:
    if row is None or row.usd is None:
        return absent
    return plain(row.usd) if row.usd else "free"
