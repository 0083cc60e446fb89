"""Plain-text tables: numbers aligned on their point, columns that give way when the terminal is narrow."""

import shutil
from collections.abc import Sequence

from launcher.model.record import record

INDENT = "  "
RULE = "─"
GAPS = (2, 1)
LEAST_TEXT = 12


@record
class Column:
    """One column.

    `yields` says when it goes: the highest first, None never. `shrinks` lets its text be cut to what is left.
    """

    title: str
    right: bool = False
    yields: int | None = None
    shrinks: bool = False


def terminal_width() -> int:
    """Columns of the terminal, or of COLUMNS, at least 60."""
    return max(60, shutil.get_terminal_size((100, 24)).columns)


def render(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """The lines of a table: title, rule, rows, rule.

    Columns that may yield are left out where they are empty. The others go one by one, the highest first, until the
    rest fits; before one that yields at 0 the gap shrinks; then the text of a shrinking column is cut.
    """
    full = [max([len(column.title), *(len(row[i]) for row in rows)]) for i, column in enumerate(columns)]
    kept = [i for i, column in enumerate(columns) if column.yields is None or any(row[i] for row in rows)]
    order = sorted((c.yields, i) for i, c in enumerate(columns) if c.yields is not None and i in kept)
    gap = GAPS[0]
    while _width(full, kept, gap) > width:
        if order and (order[-1][0] or gap == GAPS[-1]):
            _, gone = order.pop()
            if columns[gone].shrinks and _room(full[gone], _width(full, kept, gap), width) >= LEAST_TEXT:
                break
            kept.remove(gone)
        elif gap != GAPS[-1]:
            gap = GAPS[-1]
        else:
            break
    widths = {i: full[i] for i in kept}
    for index in kept:
        table = _width(list(widths.values()), range(len(kept)), gap)
        if columns[index].shrinks and table > width:
            widths[index] = max(LEAST_TEXT, _room(widths[index], table, width))
    total = len(INDENT) + sum(widths[i] for i in kept) + gap * (len(kept) - 1)
    rule = INDENT + RULE * (min(total, width) - len(INDENT))
    titles = [_line(columns, [column.title for column in columns], kept, widths, gap), rule]
    return [*titles, *(_line(columns, row, kept, widths, gap) for row in rows), rule]


def _width(widths: Sequence[int], kept: Sequence[int], gap: int) -> int:
    """The width of the whole table."""
    return len(INDENT) + sum(widths[i] for i in kept) + gap * (len(kept) - 1)


def _room(own: int, table: int, width: int) -> int:
    """What is left for one column of its `own` width when the others of the `table` have their full width."""
    return width - table + own


def _line(
    columns: Sequence[Column], cells: Sequence[str], kept: Sequence[int], widths: dict[int, int], gap: int
) -> str:
    """One line of the table, without trailing blanks."""
    parts = []
    for index in kept:
        text, room = cells[index], widths[index]
        if len(text) > room:
            text = text[: room - 1] + "…"
        parts.append(text.rjust(room) if columns[index].right else text.ljust(room))
    return (INDENT + (" " * gap).join(parts)).rstrip()


def align_points(texts: Sequence[str]) -> list[str]:
    """Numbers padded on the right so that their points are under each other; words are left as they are.

    >>> align_points(["37.60", "109", "unpriced"])
    ['37.60', '109   ', 'unpriced']
    """
    most = max((len(text) - text.index(".") for text in texts if "." in text), default=0)
    padded = []
    for text in texts:
        if not text or not text[0].isdigit():
            padded.append(text)
        else:
            padded.append(text + " " * (most - (len(text) - text.index(".") if "." in text else 0)))
    return padded
