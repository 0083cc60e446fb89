"""Plain-text tables: numbers aligned on their decimal point, columns that are omitted if the terminal is narrow."""

from collections.abc import Callable, Sequence
from decimal import Decimal
from textwrap import wrap
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from launcher.answers import words

INDENT = "  "
RULE = "─"
GAPS = (2, 1)
MIN_TEXT = 12
Row = TypeVar("Row")
Align = Literal["left", "right", "point"]
"""The alignment of a column's texts: "point" aligns the decimal points of numbers, at the right."""


class Column(NamedTuple, Generic[Row]):
    """One column: its title, and the text of a row's cell in it."""

    title: str
    cell: Callable[[Row], str]
    align: Align = "left"
    # The order of omission if the table is too wide: the highest first, None never.
    yields: int | None = None
    # Whether the text is cut to the remaining width.
    shrinks: bool = False
    # Whether the text continues in the next line.
    wraps: bool = False
    # The number by which an HTML page sorts, if the text is not the sort key.
    value: Callable[[Row], float | Decimal | None] | None = None


def dollars(
    title: str, usd: Callable[[Row], Decimal | None], without: str = "–", yields: int | None = None
) -> Column[Row]:
    """A column of dollars, with the given words for no amount."""
    return Column(title, lambda row: words.dollars(usd(row), without), "point", yields, value=usd)


def hours(title: str, of: Callable[[Row], float | None], without: str = "") -> Column[Row]:
    """A column of hours, with the given words for no value."""
    return Column(title, lambda row: without if (value := of(row)) is None else words.hours(value), "right", value=of)


def render(columns: Sequence[Column[Row]], rows: Sequence[Row], width: int, *, number: str = "") -> list[str]:
    """The lines of a table: title, rule, rows, rule; `number` is the title of a first column that counts the rows.

    Empty columns that may yield are omitted. The others are omitted one by one, the highest first, until the rest fits;
    before a column that yields at 0 the gap shrinks; then the text of a shrinking column is cut, or wrapped.
    """
    cells = [_cells(column, rows) for column in columns]
    if number:
        columns = [Column(number, str, "right"), *columns]
        cells.insert(0, [str(count) for count in range(1, len(rows) + 1)])
    full = [max([len(column.title), *map(len, texts)]) for column, texts in zip(columns, cells, strict=True)]
    shown = [i for i, column in enumerate(columns) if column.yields is None or any(cells[i])]
    order = sorted((c.yields, i) for i, c in enumerate(columns) if c.yields is not None and i in shown)
    gap = GAPS[0]
    while _width(full, shown, gap) > width:
        if order and (order[-1][0] or gap == GAPS[-1]):
            _, omitted = order.pop()
            if columns[omitted].shrinks and _room(full[omitted], _width(full, shown, gap), width) >= MIN_TEXT:
                break
            shown.remove(omitted)
        elif gap != GAPS[-1]:
            gap = GAPS[-1]
        else:
            break
    widths = {i: full[i] for i in shown}
    for index in shown:
        table = _width(list(widths.values()), range(len(shown)), gap)
        if (columns[index].shrinks or columns[index].wraps) and table > width:
            widths[index] = max(MIN_TEXT, _room(widths[index], table, width))
    total = len(INDENT) + sum(widths[i] for i in shown) + gap * (len(shown) - 1)
    rule = INDENT + RULE * (min(total, width) - len(INDENT))
    titles = [_line(columns, [column.title for column in columns], shown, widths, gap), rule]
    lines = [line for row in zip(*cells, strict=True) for line in _wrapped_row(columns, row, widths)]
    return [*titles, *(_line(columns, line, shown, widths, gap) for line in lines), rule]


def _wrapped_row(columns: Sequence[Column[Any]], row: Sequence[str], widths: dict[int, int]) -> list[list[str]]:
    """The cells of each line of a row: the first line, and the continuation lines of the columns that wrap."""
    lines = [list(row)]
    for index, room in widths.items():
        text = row[index]
        if columns[index].wraps and len(text) > room:
            indent = " " * (len(text) - len(text.lstrip()))
            first, *rest = wrap(
                text.strip(), room, initial_indent=indent, subsequent_indent=f"{indent}  ", break_on_hyphens=False
            )
            lines[0][index] = first
            lines += [["" if other != index else piece for other in range(len(row))] for piece in rest]
    return lines


def _cells(column: Column[Row], rows: Sequence[Row]) -> list[str]:
    texts = [column.cell(row) for row in rows]
    return align_points(texts) if column.align == "point" else texts


def _width(widths: Sequence[int], shown: Sequence[int], gap: int) -> int:
    return len(INDENT) + sum(widths[i] for i in shown) + gap * (len(shown) - 1)


def _room(full: int, table: int, width: int) -> int:
    """The room left for one column of its `full` width if the others of the `table` have their full width."""
    return width - table + full


def _line(
    columns: Sequence[Column[Any]], cells: Sequence[str], shown: Sequence[int], widths: dict[int, int], gap: int
) -> str:
    parts = []
    for index in shown:
        text, room = cells[index], widths[index]
        if len(text) > room:
            text = text[: room - 1] + "…"
        parts.append(text.ljust(room) if columns[index].align == "left" else text.rjust(room))
    return (INDENT + (" " * gap).join(parts)).rstrip()


def align_points(texts: Sequence[str]) -> list[str]:
    """Numbers padded on the right so that their decimal points align; words remain unchanged.

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
