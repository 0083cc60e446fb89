"""Tables on narrow terminals: notes are shortened first, numbers never."""

from operator import itemgetter

from launcher.answers.table import Column, align_points, render

COLUMNS: list[Column[list[str]]] = [
    Column("#", itemgetter(0), "right"),
    Column("machines", itemgetter(1)),
    Column("zone", itemgetter(2), yields=1),
    Column("total $", itemgetter(3), "right"),
    Column("notes", itemgetter(4), yields=2, shrinks=True),
]
ROWS = [
    ["1", "1 × p5.48xlarge", "use2-az1", "37.60", "saves every 14 minutes and says so at length"],
    ["2", "16 × p4d.24xlarge", "use1-az6", "1,097.00", ""],
]


def test_wide_terminal_shows_all_columns() -> None:
    lines = render(COLUMNS, ROWS, 120)
    assert "saves every 14 minutes and says so at length" in lines[2]
    assert lines[1].strip("─ ") == ""


def test_narrow_table_drops_notes_then_zone_and_keeps_numbers() -> None:
    for width in range(120, 38, -1):
        lines = render(COLUMNS, ROWS, width)
        assert all(len(line) <= width for line in lines), width
        assert "37.60" in lines[2]
        assert "1,097.00" in lines[3]
        if "use2-az1" not in lines[2]:
            assert "saves" not in lines[2]


def test_decimal_points_align() -> None:
    assert align_points(["37.60", "109", "1,097.5", "unpriced"]) == ["37.60", "109   ", "1,097.5 ", "unpriced"]


def test_wrapped_column_keeps_indent() -> None:
    columns = [Column("line", itemgetter(0), wraps=True), Column("$", itemgetter(1), "point")]
    rows = [["  a-long-model:0 on-demand, input", "2,890.80"], ["compute", "2,890.80"]]
    assert render(columns, rows, 60)[2] == "    a-long-model:0 on-demand, input  2,890.80"
    assert render(columns, rows, 30)[2:5] == [
        "    a-long-model:0    2,890.80",
        "      on-demand,",
        "      input",
    ]
