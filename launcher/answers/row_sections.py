"""Rows of a first screen under headings: words on the left, numbers on the right, one layout for all of them."""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from launcher.answers.lines import fold

WIDE = 100
"""Columns from which a row has its target's name, its accelerator and its hourly rate."""
Cells: TypeAlias = tuple[str, ...]
TARGET = 4
"""The index of the target among the cells of a row."""
LAYOUTS = (
    (True, False, 2, 4),
    (False, False, 2, 4),
    (False, True, 2, 4),
    (False, True, 1, 4),
    (False, True, 1, 2),
)
"""Whether a row has the target's column, is tight around the multiplication sign; its gap and its indentation."""
WIDE_LAYOUTS = (LAYOUTS[0], (True, False, 1, 4), (True, True, 1, 4), (True, True, 1, 2), *LAYOUTS[1:])
"""Those of a wide screen, on which the target's name comes before room around the numbers."""


def section_lines(sections: Sequence[tuple[str, Sequence[Cells]]], titles: Cells, width: int) -> list[str]:
    """The rows of each section under its heading; `titles` are those of the last columns, which are numbers."""
    layout = _layout([cells for _, rows in sections for cells in rows], titles, width)
    lines = []
    for number, (title, rows) in enumerate(sections):
        lines += _heading(title, layout, width, first=not number)
        lines += [layout.line(cells) for cells in rows]
    return lines


class _Layout(NamedTuple):
    """The widths of the columns, the indentation and the gap before each number; a column of width 0 is left out.

    `titles` are those of the last columns.
    """

    titles: Cells
    widths: tuple[int, ...]
    indent: int
    gap: int
    tight: bool

    def line(self, cells: Cells) -> str:
        """A row: words on the left, numbers on the right."""
        texts = [cell.replace(" × ", "×") if self.tight else cell for cell in cells]
        last = len(cells) - len(self.titles)
        left = [text.ljust(room) for text, room in zip(texts[:last], self.widths, strict=False) if room]
        right = [text.rjust(room) for text, room in zip(texts[last:], self.widths[last:], strict=True)]
        return f"{' ' * self.indent}{' '.join(left)} {(' ' * self.gap).join(right)}".rstrip()


def _layout(rows: Sequence[Cells], titles: Cells, width: int) -> _Layout:
    """The widest layout that fits: without the target's code, then closer together.

    The code stays where two rows would be alike without it.
    """
    alike = len({row[1:TARGET] for row in rows}) < len({row[1 : TARGET + 1] for row in rows})
    available = WIDE_LAYOUTS if width >= WIDE else LAYOUTS
    layouts = [(coded or alike, tight, gap, indent) for coded, tight, gap, indent in available]
    for coded, tight, gap, indent in layouts:
        texts = [[cell.replace(" × ", "×") if tight else cell for cell in row] for row in rows]
        widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
        for offset, title in enumerate(reversed(titles), start=1):
            widths[-offset] = max(widths[-offset], len(title))
        if not coded:
            widths[TARGET] = 0
        layout = _Layout(titles, tuple(widths), indent, gap, tight)
        if (coded, tight, gap, indent) == layouts[-1] or max(len(layout.line(row)) for row in rows) <= width:
            return layout
    raise AssertionError("no layout")


def _heading(title: str, layout: _Layout, width: int, *, first: bool) -> list[str]:
    """A section's heading; the first one has the titles of the numbers, beside it if there is room."""
    text = f"  {title}"
    if not first:
        return fold(text, width)
    blank = tuple("" for _ in layout.widths[: -len(layout.titles)])
    titles = layout.line((*blank, *layout.titles))
    if len(text) > width or titles[: len(text) + 2].strip():
        return [*fold(text, width), titles]
    return [text + titles[len(text) :]]
