"""The page of `make bench`: figures as tables, single ones before lists."""

from benchmarks.__main__ import AIMS, TITLES, figures_table
from benchmarks.plan_speed import MAX_OF_IMPORTS, PLANS
from benchmarks.spot_interval import Cell, summary


def test_figures_are_rendered_as_tables() -> None:
    figures = {"base_s": 0.1, "commands": [{"name": "any", "most": 4.0}, {"name": "one", "most": None}]}
    assert list(figures_table(figures)) == [
        "| figure | value |",
        "|---|---|",
        "| base_s | 0.1 |",
        "",
        "commands:",
        "",
        "| name | most |",
        "|---|---|",
        "| any | 4.0 |",
        "| one |  |",
    ]


def test_every_benchmark_section_has_an_aim() -> None:
    assert set(AIMS) == set(TITLES)
    assert [*(most for _, _, most in PLANS if most), MAX_OF_IMPORTS] == [3.0, 3.0, 3.0]


def test_worst_interval_is_the_one_with_the_largest_excess() -> None:
    near = Cell(name="near", automatic_usd=100.5, best_usd=100, automatic_s=60, best_s=50)
    far = Cell(name="far", automatic_usd=103, best_usd=100, automatic_s=60, best_s=30)
    totals = summary([near, far])
    assert (totals["held"], totals["worst_cell"], totals["worst_excess"]) == (1, "far", 0.03)
