"""Selecting the price from several dated rows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.catalog.selection import FOREVER, newest, newest_unverified
from launcher.catalog.store import Row


def row(usd: str, as_of: str, basis: str = "listed") -> Row:
    return Row(zone="", usd=usd, as_of=as_of, basis=basis, source="s", note="")


def usd(price_row: Row) -> str:
    return price_row.usd


def winner(*rows: Row, until: str = FOREVER) -> str | None:
    newest_row = newest(rows, usd, until)
    return newest_row.usd if newest_row else None


@pytest.mark.parametrize(
    "rows, until, expected",
    [
        ([row("1", "2026-01-01"), row("2", "2026-02-01")], FOREVER, "2"),
        ([row("2", "2026-02-01"), row("1", "2026-01-01")], FOREVER, "2"),
        ([row("1", "2026-01-01"), row("2", "2026-02-01")], "2026-01-31", "1"),
        ([row("1", "2026-01-01"), row("2", "2026-02-01")], "2026-02-01", "2"),
        ([row("1", "2026-01-01")], "2025-12-31", None),
        ([row("1", "2026-01-01"), row("9", "2026-01-01", "derived")], FOREVER, "1"),
        ([row("1", "2026-01-01"), row("9", "2026-01-02", "derived")], FOREVER, "9"),
        ([row("9.5", "2026-01-01"), row("10", "2026-01-01")], FOREVER, "10"),
        ([row("1", "2020-01-01"), row("2", "2026-01-01", "unverified")], FOREVER, "1"),
        ([row("1", "2020-01-01"), row("2", "2026-01-01", "memory")], FOREVER, "1"),
        ([row("1", "2020-01-01"), row("", "2026-01-01")], FOREVER, "1"),
        ([row("2", "2026-01-01", "unverified")], FOREVER, None),
        ([], FOREVER, None),
    ],
)
def test_newest_listed_or_derived_row_wins(rows: list[Row], until: str, expected: str | None):
    assert winner(*rows, until=until) == expected


def test_newest_unverified_row_is_found_separately():
    rows = [row("1", "2026-01-01"), row("2", "2025-01-01", "unverified"), row("3", "2025-06-01", "unverified")]
    unverified_row = newest_unverified(rows, usd, FOREVER)
    assert unverified_row is not None
    assert unverified_row.usd == "3"


ROWS = st.lists(
    st.builds(
        row,
        usd=st.decimals("0.0001", "999", places=4).map(str),
        as_of=st.dates().map(lambda day: day.isoformat()),
        basis=st.sampled_from(["listed", "derived", "unverified"]),
    )
)


@given(rows=ROWS, until=st.dates().map(lambda day: day.isoformat()), data=st.data())
def test_row_order_does_not_matter_and_winner_is_newest(rows: list[Row], until: str, data: st.DataObject):
    newest_row = newest(rows, usd, until)
    again = newest(data.draw(st.permutations(rows)), usd, until)
    assert (newest_row is None) == (again is None)
    candidates = [price_row for price_row in rows if price_row.basis != "unverified" and price_row.as_of <= until]
    assert (newest_row is None) == (not candidates)
    if newest_row is not None and again is not None:
        assert (float(newest_row.usd), newest_row.as_of, newest_row.basis) == (
            float(again.usd),
            again.as_of,
            again.basis,
        )
        assert newest_row.as_of == max(candidate.as_of for candidate in candidates)
