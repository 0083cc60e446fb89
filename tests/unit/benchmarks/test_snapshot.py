"""New rows for the shipped prices: changes are added, unchanged rows stay, and the proposal lists the changes."""

import shutil
from datetime import date

import pytest

from benchmarks.snapshot import proposal, write
from launcher.catalog import tables
from launcher.catalog.load import load

P5 = ("p5.48xlarge", "us-east-1", "")
TODAY = date(2026, 12, 1)
FILE = ("listed", "aws-price-file-ec2", "")
PAGE = ("listed", "aws-spot-page", "one zone's price")


@pytest.fixture
def data(tmp_path):
    """A copy of the shipped files."""
    folder = tmp_path / "data"
    shutil.copytree(tables.SNAPSHOT, folder)
    return folder


@pytest.fixture
def keep_rows(tmp_path):
    """A cache with rows of one table after the other."""
    folder = tmp_path / "cache"
    sources = [
        ("aws-price-file-ec2", "public-file", "offer file", ""),
        ("aws-spot-page", "public-file", "spot page", ""),
    ]

    def keep(table, *rows):
        for csv_table, lines in ((table, rows), (tables.SOURCES, sources)):
            path = folder / csv_table.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(tables.encode(csv_table, lines), encoding="utf-8")
        return folder

    return keep


def prices(data, table, *key):
    rows = tables.read_checked(table, data, TODAY)
    return [(row[3], row[4]) for row in rows if tuple(row[:3]) == key and row[6].startswith("aws-")]


def test_changed_price_is_added_with_the_source_and_an_unchanged_one_is_skipped(data, keep_rows):
    same = ("p4d.24xlarge", "us-east-1", "", "21.957642", "2026-10-20", *FILE)
    before = (data / tables.SPOT.path).read_bytes()
    written = write(keep_rows(tables.ON_DEMAND, (*P5, "49.5", "2026-11-30", *FILE), same), data, TODAY)
    assert written.added == {tables.ON_DEMAND.path: 1}
    assert prices(data, tables.ON_DEMAND, *P5) == [("49.5", "2026-11-30")]
    assert prices(data, tables.ON_DEMAND, *same[:3]) == []
    assert "aws-price-file-ec2" in {row[0] for row in tables.read_checked(tables.SOURCES, data, TODAY)}
    assert (data / tables.SPOT.path).read_bytes() == before


def test_unchanged_price_of_an_old_date_gets_the_new_date(data, keep_rows):
    write(keep_rows(tables.ON_DEMAND, (*P5, "55.04", "2026-11-30", *FILE)), data, TODAY)
    assert prices(data, tables.ON_DEMAND, *P5) == [("55.04", "2026-11-30")]


def test_repeated_snapshot_changes_no_file(data, keep_rows):
    folder = keep_rows(tables.ON_DEMAND, (*P5, "49.5", "2026-11-30", *FILE))
    write(folder, data, TODAY)
    before = {path: path.read_bytes() for path in data.rglob("*.csv")}
    assert write(folder, data, TODAY).added == {}
    assert {path: path.read_bytes() for path in data.rglob("*.csv")} == before


def test_spot_snapshot_keeps_the_newest_row_and_manual_rows(data, keep_rows):
    by_hand = len(list(tables.read_checked(tables.SPOT, data, TODAY)))
    for day, usd in (("2026-11-29", "21"), ("2026-11-30", "22")):
        write(keep_rows(tables.SPOT, (*P5, usd, day, *PAGE)), data, TODAY)
    assert prices(data, tables.SPOT, *P5) == [("22", "2026-11-30")]
    assert len(list(tables.read_checked(tables.SPOT, data, TODAY))) == by_hand + 1


def test_price_of_an_unknown_zone_is_not_added(data, keep_rows):
    row = ("p5.48xlarge", "us-east-1", "us-east-1-new-1", "49.5", "2026-11-30", *FILE)
    assert write(keep_rows(tables.ON_DEMAND, row), data, TODAY).added == {}


def test_proposal_text_contains_the_changed_price(data, keep_rows, monkeypatch):
    written = write(keep_rows(tables.ON_DEMAND, (*P5, "49.5", "2026-11-30", *FILE)), data, TODAY)
    monkeypatch.setattr(tables, "SNAPSHOT", data)
    text = "\n".join(proposal(load(), written, TODAY))
    assert "Prices as of 2026-12-01" in text
    assert "prices/on_demand.csv: 1 rows" in text
    assert "p5.48xlarge" in text
    assert "49.5" in text


def test_proposal_of_an_unchanged_snapshot_reports_no_changes(data, keep_rows):
    written = write(keep_rows(tables.ON_DEMAND), data, TODAY)
    assert proposal(load(), written, TODAY) == ["Nothing is new in the cache."]
