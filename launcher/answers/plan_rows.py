"""Rows of the page of `slipway plan`: the table's cells for a candidate, at the width that it has."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple

from launcher.answers import words
from launcher.answers.lines import fold
from launcher.answers.table import Align, Column, render
from launcher.model.enums import PREPAID, Level
from launcher.model.money import Price
from launcher.model.quote import Quote
from launcher.pricing.gate import IMPOSSIBLE
from launcher.pricing.stop_findings import STOPPED_BY_QUOTA
from launcher.targets.registry import target_of

NARROW = 100
MANY_HOURS = 100
TARGET = 6
"""The index of the target among the cells of a row."""
CODED = "kind"
"""The title of the column of target codes, no wider than the codes."""


class TableRow(NamedTuple):
    """One candidate in words, by its short id. Slipway holds thousands of rows in memory, but not their quotes."""

    id: str
    # Its cells for a wide screen.
    wide: tuple[str, ...]
    # Its cells for 80 columns.
    narrow: tuple[str, ...]
    note: str
    # The important note if the table has no room for `note`.
    below: str
    # The name of a row without a price, "" for a row with a price.
    unpriced: str


def table_row(short_id: str, quoted: Quote) -> TableRow:
    """The row of a quote."""
    place, note = quoted.plan.place, note_of(quoted)
    wide, whole = _wide(short_id, quoted, note), place.option in PREPAID
    grave = whole or quoted.commitment_usd is not None or quoted.gate.exit_code == IMPOSSIBLE or _stopped_note(quoted)
    text = note if grave else incomplete_note(quoted) if quoted.incomplete else ""
    return TableRow(
        id=short_id,
        wide=wide,
        narrow=_narrow(wide, quoted),
        note=note,
        below=text if quoted.usd is not None else "",
        unpriced=unpriced_name(quoted) if quoted.no_price_reason is not None else "",
    )


def unpriced_name(quoted: Quote) -> str:
    """The name of a row without a price."""
    return f"{quoted.plan.place.instance_type} {words.option(quoted.plan.place)}"


def unpriced_reasons(rows: Iterable[tuple[str, str]], width: int) -> list[str]:
    """Why rows have no price: the notes show it if the table has room, and this list always shows it.

    `rows` are pairs of an unpriced row's name and its reason.
    """
    by_reason: dict[str, dict[str, None]] = {}
    for name, reason in rows:
        by_reason.setdefault(reason, {})[name] = None
    return [
        piece for reason, rows_of in by_reason.items() for piece in fold(f"  – {', '.join(rows_of)}: {reason}", width)
    ]


def notes_below(rows: Sequence[TableRow], lines: Sequence[str], width: int) -> list[str]:
    """Important notes without room in the table: billed hours of blocks, commitments, impossible candidates.

    Incomplete totals are listed here too.
    """
    below: dict[str, list[str]] = {}
    backwards = sorted(line[::-1] for line in lines)

    def has_room(note: str) -> bool:
        """Whether the table shows a note completely, at the end of a line."""
        reversed_note = note[::-1]
        at = bisect_left(backwards, reversed_note)
        return at < len(backwards) and backwards[at].startswith(reversed_note)

    for row in rows:
        if row.below and not has_room(row.note):
            below.setdefault(row.below, []).append(row.id)
    lines = [piece for note, ranks in below.items() for piece in fold(f"  {', '.join(ranks)}: {note}", width)]
    return lines + unpriced_reasons(((row.unpriced, row.note) for row in rows if row.unpriced), width)


def counted_notes(rows: Sequence[TableRow], width: int) -> list[str]:
    """The number of rows with a note, in place of notes that would be as long as the table."""
    noted, unpriced = sum(bool(row.below) for row in rows), sum(bool(row.unpriced) for row in rows)
    text = f"{noted:,} rows have a note (commitment, billed hours, incomplete total), {unpriced:,} have no price"
    return fold(f"  {text}: --json has each; target in the plan file narrows the list.", width)


def table(rows: Sequence[TableRow], width: int) -> list[str]:
    """The candidates as a table.

    Below NARROW columns, and if dollars per hour would not fit, targets are shown by code and plans without their kind.
    The table has a target column only if the rows have several targets.
    """
    narrow = width < NARROW
    several = len({row.wide[TARGET] for row in rows}) > 1
    lines, columns = list[str](), WIDE_COLUMNS
    for short in (False, True)[narrow:]:
        columns = NARROW_COLUMNS if short else WIDE_COLUMNS
        lines = render([column for at, column in enumerate(columns) if several or at != TARGET], rows, width)
        if " $/h " in lines[0]:
            break
    if columns is WIDE_COLUMNS or f" {CODED} " not in lines[0]:
        return lines
    codes = sorted({(row.narrow[TARGET], row.wide[TARGET]) for row in rows})
    legend = "; ".join(f"{code} {name}" for code, name in codes if code.lower() != name)
    return lines + (fold(f"  {legend}", width) if legend else [])


def _cell(cells: Callable[[TableRow], tuple[str, ...]], index: int, row: TableRow) -> str:
    return cells(row)[index]


def _columns(cells: Callable[[TableRow], tuple[str, ...]], target: str) -> list[Column[TableRow]]:
    titles: tuple[tuple[str, Align, int | None], ...] = (
        ("id", "left", None),
        ("instances", "left", None),
        ("", "left", 2),
        ("where", "left", None),
        ("zone", "left", 3),
        ("how", "left", None),
        (target, "left", 0),
        ("$/h", "point", 1),
        ("hours", "point", None),
        ("", "left", 0),
        ("total $", "point", None),
        ("", "left", None),
        ("notes", "left", 4),
    )
    return [
        Column(title, partial(_cell, cells, index), align, yields, shrinks=title == "notes")
        for index, (title, align, yields) in enumerate(titles)
    ]


WIDE_COLUMNS = _columns(lambda row: row.wide, "target")
NARROW_COLUMNS = _columns(lambda row: row.narrow, CODED)


def _wide(short_id: str, quoted: Quote, note: str) -> tuple[str, ...]:
    place, usd = quoted.plan.place, quoted.usd
    hours = quoted.hours
    return (
        short_id,
        words.place_instances(place),
        quoted.accelerator,
        place.region,
        place.az_id or "",
        words.option(place),
        place.target.value,
        words.dollars(quoted.price.usd * place.nodes) if isinstance(quoted.price, Price) else "unpriced",
        words.hours(hours.mid),
        words.between(words.hours(hours.low), words.hours(hours.high)),
        f"{'~' if quoted.is_derived else ''}{words.dollars(usd.mid)}" if usd else "",
        words.usd_bounds(usd),
        note,
    )


def _narrow(wide: tuple[str, ...], quoted: Quote) -> tuple[str, ...]:
    """The same cells for little room: whole hours if they are many, codes for targets."""
    short_id, instances, accelerator, region, zone, _, _, rate, hours, spread, usd, between, note = wide
    place, high_h = quoted.plan.place, quoted.hours.high
    return (
        short_id,
        instances.replace(" × ", "×"),
        accelerator,
        region,
        zone,
        words.option(place, short=True),
        target_of(place.target).short or place.target.value,
        rate if isinstance(quoted.price, Price) else "",
        hours,
        words.between(f"{quoted.hours.low:,.0f}", f"{high_h:,.0f}") if high_h >= MANY_HOURS else spread,
        usd,
        between if quoted.usd else "unpriced",
        note,
    )


def note_of(quoted: Quote) -> str:
    """The most important note on a row."""
    if quoted.no_price_reason is not None:
        listed = getattr(quoted.price, "unverified", None)
        unverified = (
            f" (unverified: {words.dollars(listed.usd)})" if listed is not None and listed.basis == "unverified" else ""
        )
        return quoted.no_price_reason + unverified
    error = next((finding for finding in quoted.findings if finding.level is Level.ERROR), None)
    if error is not None:
        return error.message
    parts = [text for text in (_stopped_note(quoted), quoted.note) if text]
    if quoted.commitment_usd is not None and quoted.plan.place.term_years:
        parts.append(f"a commitment of ${words.dollars(quoted.commitment_usd)}")
    if quoted.incomplete:
        parts.append(incomplete_note(quoted))
    return "; ".join(parts)


def _stopped_note(quoted: Quote) -> str:
    """The note that a quota may stop the job before its end; "" if none does."""
    messages = (finding.message for finding in quoted.findings if finding.code == STOPPED_BY_QUOTA)
    # What follows from the quota is the last part of the message's first sentence.
    return next((message.partition(". ")[0].rpartition(": ")[2] for message in messages), "")


def incomplete_note(quoted: Quote) -> str:
    """The note that a total has lines without a price; "" for a whole one."""
    return "total incomplete" if quoted.incomplete else ""
