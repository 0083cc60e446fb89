"""A folder of newer files beside the snapshot."""

import os
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from launcher.catalog import load as catalog_files
from launcher.catalog import tables
from launcher.catalog.load import load
from launcher.catalog.selector import Key
from launcher.catalog.tables import Table
from launcher.model.enums import Basis, Payment, SavingsPlanKind
from launcher.model.errors import UnreadableInputError
from launcher.model.money import Price, Unpriced
from launcher.workflow.quote.prices import PriceFilter, show

ORIGIN = ("2026-11-19", "listed", "price-list", "")


def write(folder: Path, table: Table, *rows: tuple[str, ...]) -> Path:
    path = folder / table.path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(tables.encode(table, rows), encoding="utf-8")
    return folder


def test_newer_cached_row_wins_and_older_is_history(tmp_path: Path):
    write(tmp_path, tables.ON_DEMAND, ("p5.48xlarge", "us-east-1", "", "49.5", *ORIGIN))
    write(tmp_path, tables.SOURCES, ("price-list", "price-list", "AWS Price List", ""))
    catalog = load(overlay=tmp_path)
    price = catalog.on_demand("p5.48xlarge", "us-east-1")
    assert isinstance(price, Price)
    assert price.usd == Decimal("49.5")
    assert price.source == "AWS Price List"
    assert price.as_of == date(2026, 11, 19)
    history = catalog.selector.rows(Key("on-demand", "p5.48xlarge", "us-east-1"))
    assert [row.usd for row in history] == ["98.32", "55.04", "55.04", "55.04", "49.5"]


def test_price_missing_in_cache_comes_from_snapshot(tmp_path: Path):
    write(tmp_path, tables.ON_DEMAND, ("p5.48xlarge", "us-east-1", "", "49.5", *ORIGIN))
    price = load(overlay=tmp_path).on_demand("p4d.24xlarge", "us-east-1")
    assert isinstance(price, Price)
    assert price.usd == Decimal("21.957642")


def test_prices_as_of_earlier_date_ignore_later_cache_rows(tmp_path: Path):
    write(tmp_path, tables.ON_DEMAND, ("p5.48xlarge", "us-east-1", "", "49.5", *ORIGIN))
    price = load(overlay=tmp_path, prices_as_of=date(2026, 11, 18)).on_demand("p5.48xlarge", "us-east-1")
    assert isinstance(price, Price)
    assert price.usd == Decimal("55.04")


def test_cached_listed_price_replaces_unpriced(tmp_path: Path):
    write(tmp_path, tables.ON_DEMAND, ("trn2.48xlarge", "us-east-2", "", "80.1", *ORIGIN))
    price = load(overlay=tmp_path).on_demand("trn2.48xlarge", "us-east-2")
    assert isinstance(price, Price)
    assert price.usd == Decimal("80.1")


def test_cached_zone_and_region_are_offered(tmp_path: Path):
    write(tmp_path, tables.SPOT, ("p5.48xlarge", "eu-west-1", "euw1-az1", "20", *ORIGIN))
    catalog = load(overlay=tmp_path)
    assert catalog.offers("p5.48xlarge", "eu-west-1")
    assert not load().offers("p5.48xlarge", "eu-west-1")
    assert list(catalog.spot("p5.48xlarge", "eu-west-1")) == ["euw1-az1"]


def test_cached_savings_plan_rate_replaces_derived(tmp_path: Path):
    write(tmp_path, tables.SAVINGS_PLANS, ("p5.48xlarge", "us-east-1", "compute", "3", "41.5", "", "", *ORIGIN))
    catalog = load(overlay=tmp_path)
    read = catalog.savings_plan("p5.48xlarge", "us-east-1", SavingsPlanKind.COMPUTE, 3, Payment.NO_UPFRONT)
    derived = catalog.savings_plan("p5.48xlarge", "us-east-1", SavingsPlanKind.COMPUTE, 3, Payment.ALL_UPFRONT)
    assert isinstance(read, Price)
    assert isinstance(derived, Price)
    assert (read.usd, read.basis) == (Decimal("41.5"), Basis.LISTED)
    assert derived.basis is Basis.DERIVED


def test_sagemaker_savings_and_training_plans_priced_from_cache(tmp_path: Path):
    plan = (SavingsPlanKind.SAGEMAKER, 1, Payment.NO_UPFRONT)
    for price in (
        load().savings_plan("ml.p5.48xlarge", "us-east-1", *plan),
        load().training_plan("p5.48xlarge", "us-west-2"),
    ):
        assert isinstance(price, Unpriced)
        assert price.reason
    write(tmp_path, tables.SAVINGS_PLANS, ("ml.p5.48xlarge", "us-east-1", "sagemaker", "1", "50", "", "", *ORIGIN))
    write(tmp_path, tables.TRAINING_PLANS, ("p5.48xlarge", "us-west-2", "", "44", *ORIGIN))
    catalog = load(overlay=tmp_path)
    assert isinstance(catalog.savings_plan("ml.p5.48xlarge", "us-east-1", *plan), Price)
    assert isinstance(catalog.training_plan("p5.48xlarge", "us-west-2"), Price)


def test_cached_tiers_replace_flat_price_and_reverse(tmp_path: Path):
    write(
        tmp_path,
        tables.BILL_ITEMS,
        ("s3.standard-storage", "us-east-1", "GB-month", "0", "", "0.02", *ORIGIN),
        ("eks.cluster", "us-east-1", "hour", "0", "100", "0.1", *ORIGIN),
        ("eks.cluster", "us-east-1", "hour", "100", "", "0.09", *ORIGIN),
    )
    catalog = load(overlay=tmp_path)
    flat = catalog.bill_item("s3.standard-storage", "us-east-1")
    tiered = catalog.bill_item("eks.cluster", "us-east-1")
    assert isinstance(flat, Price)
    assert isinstance(tiered, Price)
    assert (flat.usd, flat.tiers) == (Decimal("0.02"), ())
    assert [str(tier.usd) for tier in tiered.tiers] == ["0.1", "0.09"]


def test_missing_cache_folder_adds_no_rows(tmp_path: Path):
    assert isinstance(load(overlay=tmp_path / "nowhere").on_demand("p5.48xlarge", "us-east-1"), Price)


def test_cached_source_without_description_named_by_id(tmp_path: Path):
    write(tmp_path, tables.ON_DEMAND, ("p5.48xlarge", "us-east-1", "", "49.5", *ORIGIN))
    price = load(overlay=tmp_path).on_demand("p5.48xlarge", "us-east-1")
    assert isinstance(price, Price)
    assert price.source == "price-list"


HEADER = ",".join(tables.ON_DEMAND.columns) + "\n"


@pytest.mark.parametrize(
    "text, line, problem",
    [
        ("", 1, "columns are "),
        ("instance_type,region\n", 1, "columns are instance_type,region"),
        (HEADER + "p5.48xlarge,us-east-1,,49.5,2026-11-19,listed,s\n", 2, "7 cells, expected 8"),
        (HEADER + "p5.48xlarge,us-east-1,,0,2026-11-19,listed,s,\n", 2, "price is 0,"),
        (HEADER + "p5.48xlarge,us-east-1,,-1,2026-11-19,listed,s,\n", 2, "price is -1,"),
        (HEADER + "p5.48xlarge,us-east-1,,NaN,2026-11-19,listed,s,\n", 2, "price is NaN,"),
        (HEADER + "p5.48xlarge,us-east-1,,free,2026-11-19,listed,s,\n", 2, "price is free,"),
        (HEADER + "p5.48xlarge,us-east-1,,49.5,yesterday,listed,s,\n", 2, "as_of is yesterday,"),
        (HEADER + "p5.48xlarge,us-east-1,,49.5,20261119,listed,s,\n", 2, "as_of is 20261119,"),
        (HEADER + "p5.48xlarge,us-east-1,,49.5,,listed,s,\n", 2, "as_of is empty,"),
        (
            HEADER + "p5.48xlarge,us-east-1,,0.01,2099-01-01,listed,s,\n",
            2,
            "as_of is 2099-01-01, which is in the future",
        ),
        (HEADER + "p5.48xlarge,us-east-1,,1e-99,2026-11-19,listed,s,\n", 2, "price is 1e-99,"),
        (HEADER + f"p5.48xlarge,us-east-1,,{'9' * 400},2026-11-19,listed,s,\n", 2, "expected a decimal number"),
        (HEADER + "p5.48xlarge,us-east-1,,49.5,2026-11-19,certain,s,\n", 2, "basis is certain,"),
        (HEADER + "p5.48xlarge,us-east-1,,49.5,2026-11-19,listed,,\n", 2, "source is empty,"),
        (HEADER + '"p5.48xlarge,us-east-1\n', 2, ""),
    ],
)
def test_broken_cache_file_refused_by_file_and_line(tmp_path: Path, text: str, line: int, problem: str):
    path = tmp_path / tables.ON_DEMAND.path
    path.parent.mkdir()
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UnreadableInputError) as caught:
        load(overlay=tmp_path, today=date(2026, 11, 20)).on_demand("p5.48xlarge", "us-east-1")
    assert str(path) in caught.value.message
    assert problem in caught.value.message
    if problem:
        assert f"line {line}: " in caught.value.message
    assert "slipway prices refresh" in caught.value.hint
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("make", ["device", "pipe", "terminal", "folder", "large"])
def test_irregular_or_oversized_cache_file_refused(tmp_path: Path, monkeypatch, make: str):
    path = tmp_path / tables.ON_DEMAND.path
    path.parent.mkdir()
    if make in {"device", "terminal"}:
        path.symlink_to({"device": "/dev/zero", "terminal": "/dev/tty"}[make])
    elif make == "pipe":
        os.mkfifo(path)
    elif make == "folder":
        path.mkdir()
    else:
        monkeypatch.setattr(tables, "MAX_BYTES", 1000)
        path.write_text(HEADER + "x" * 1000)
    with pytest.raises(UnreadableInputError) as caught:
        load(overlay=tmp_path).on_demand("p5.48xlarge", "us-east-1")
    assert str(path) in caught.value.message


def test_wrong_header_is_truncated_in_message(tmp_path: Path):
    path = tmp_path / tables.ON_DEMAND.path
    path.parent.mkdir()
    path.write_text(f"{'hunter2-' * 9},b\n")
    with pytest.raises(UnreadableInputError) as caught:
        load(overlay=tmp_path).on_demand("p5.48xlarge", "us-east-1")
    assert "hunter2-hunter2-hunt..." in caught.value.message
    assert "hunter2-hunter2-hunter" not in caught.value.message


def test_binary_cache_file_refused(tmp_path: Path):
    path = tmp_path / tables.ON_DEMAND.path
    path.parent.mkdir()
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UnreadableInputError):
        load(overlay=tmp_path).on_demand("p5.48xlarge", "us-east-1")


def test_unreadable_row_is_never_written():
    with pytest.raises(ValueError, match="price is 0"):
        tables.encode(tables.ON_DEMAND, [("p5.48xlarge", "us-east-1", "", "0", *ORIGIN)])


def test_future_price_refused_beyond_one_day(tmp_path: Path):
    write(tmp_path, tables.SPOT, ("p5.48xlarge", "us-east-2", "use2-az1", "20", "2026-11-21", "listed", "s", ""))
    assert len(list(tables.read_checked(tables.SPOT, tmp_path, date(2026, 11, 20)))) == 1
    with pytest.raises(
        UnreadableInputError, match="2026-11-21, which is in the future: this computer's clock allows 2026-11-20"
    ):
        list(tables.read_checked(tables.SPOT, tmp_path, date(2026, 11, 19)))


class TestFarOutside:
    """A price that is nothing like any that is known is shown, and prices nothing until another day says the same."""

    FAR, DEAR = "0.01", "4000"

    @staticmethod
    def row(usd: str, day: str = "2026-11-19", region: str = "us-east-1") -> tuple[str, ...]:
        return ("p5.48xlarge", region, "", usd, day, "listed", "price-list", "")

    @pytest.mark.parametrize("usd", [FAR, DEAR])
    def test_implausible_price_is_not_used_alone(self, tmp_path: Path, usd: str):
        write(tmp_path, tables.ON_DEMAND, self.row(usd))
        price = load(overlay=tmp_path).on_demand("p5.48xlarge", "us-east-1")
        assert isinstance(price, Price)
        assert price.usd == Decimal("55.04")
        assert f"a newer unverified row says {usd}" in price.note

    def test_implausible_price_is_shown_with_reason(self, tmp_path: Path):
        write(tmp_path, tables.ON_DEMAND, self.row(self.FAR))
        last = load(overlay=tmp_path).selector.rows(Key("on-demand", "p5.48xlarge", "us-east-1"))[-1]
        assert (last.usd, last.basis) == (self.FAR, Basis.UNVERIFIED)
        assert "far outside what is known of p5.48xlarge" in last.note

    def test_implausible_zone_price_shown_when_region_price_is_used(self, tmp_path: Path):
        """The zone's row is all that a refresh reads: without it nobody would hear why its price was not taken."""
        row = ("p5.48xlarge", "us-east-2", "use2-az1", self.FAR, "2026-11-19", "listed", "price-list", "")
        write(tmp_path, tables.SPOT, row)
        catalog = load(overlay=tmp_path)
        contradiction = catalog.selector.contradiction(Key("spot", "p5.48xlarge", "us-east-2"))
        assert contradiction is not None
        assert (contradiction.usd, contradiction.zone) == (self.FAR, "use2-az1")
        assert catalog.selector.contradiction(Key("spot", "p5.48xlarge", "us-east-2", "use2-az2")) is None
        price_filter = PriceFilter(instance_type="p5.48xlarge", region="us-east-2", option="spot")
        shown = show(catalog, price_filter, datetime(2026, 11, 20, tzinfo=UTC), history=False)
        assert [(price_row.zone, price_row.basis) for price_row in shown if price_row.zone] == [
            ("use2-az1", Basis.UNVERIFIED)
        ]

    def test_implausible_price_confirmed_by_reading_of_other_day(self, tmp_path: Path):
        write(tmp_path, tables.ON_DEMAND, self.row(self.FAR, "2026-11-18"), self.row("0.012"))
        price = load(overlay=tmp_path).on_demand("p5.48xlarge", "us-east-1")
        assert isinstance(price, Price)
        assert price.usd == Decimal("0.012")

    def test_reading_of_other_region_or_price_confirms_no_price(self, tmp_path: Path):
        rows = (self.row(self.FAR), self.row(self.FAR, "2026-11-18", "us-east-2"), self.row("5000", "2026-11-18"))
        write(tmp_path, tables.ON_DEMAND, *rows)
        price = load(overlay=tmp_path).on_demand("p5.48xlarge", "us-east-1")
        assert isinstance(price, Price)
        assert price.usd == Decimal("55.04")

    def on_demand(self, tmp_path: Path, *rows: tuple[str, str]) -> Price:
        write(tmp_path, tables.ON_DEMAND, *(self.row(usd, day) for usd, day in rows))
        price = load(overlay=tmp_path).on_demand("p5.48xlarge", "us-east-1")
        assert isinstance(price, Price)
        return price

    def test_fall_by_more_than_a_fifth_is_noted_with_earlier_price(self, tmp_path: Path):
        assert self.on_demand(tmp_path, ("45", "2026-11-19")).note == ""
        price = self.on_demand(tmp_path, ("28", "2026-11-19"))
        assert price.usd == 28
        assert price.note.startswith("fell by 49% from 55.04 (2026-")

    def test_fall_by_more_than_half_needs_second_reading(self, tmp_path: Path):
        price = self.on_demand(tmp_path, ("27", "2026-11-18"))
        assert (price.usd, "a newer unverified row says 27" in price.note) == (Decimal("55.04"), True)
        assert self.on_demand(tmp_path, ("27", "2026-11-18"), ("15", "2026-11-19")).usd == Decimal("55.04")
        assert self.on_demand(tmp_path, ("27", "2026-11-18"), ("28", "2026-11-19")).usd == 28
        # What was not believed is no step on the way down.
        assert self.on_demand(tmp_path, ("27", "2026-11-17"), ("20", "2026-11-19")).usd == Decimal("55.04")

    def test_spot_price_may_fall_by_half(self, tmp_path: Path):
        cheap = ("p5.48xlarge", "us-east-2", "use2-az1", "6.5", "2026-11-19", "listed", "price-list", "")
        write(tmp_path, tables.SPOT, cheap)
        (row,) = [
            row
            for row in load(overlay=tmp_path).selector.rows(Key("spot", "p5.48xlarge", "us-east-2", "use2-az1"))
            if row.usd == "6.5"
        ]
        assert row.basis == Basis.LISTED

    def test_first_price_of_unknown_type_is_used(self, tmp_path: Path):
        write(tmp_path, tables.ON_DEMAND, ("p9.48xlarge", "us-east-2", "", "0.5", *ORIGIN))
        (row,) = load(overlay=tmp_path).selector.rows(Key("on-demand", "p9.48xlarge", "us-east-2"))
        assert (row.usd, row.basis) == ("0.5", Basis.LISTED)


class TestSharedCatalog:
    """The catalog of the shipped files, one for all callers of a process."""

    def test_load_without_cache_rows_reads_shipped_files_once(self, tmp_path: Path):
        # Other tests may have read other files since.
        catalog_files._load_shipped.cache_clear()
        catalog_files._store.cache_clear()
        assert load() is load(overlay=tmp_path / "nowhere", today=date(2026, 11, 20))
        assert load().store is load(prices_as_of=date(2026, 11, 18)).store

    def test_load_after_first_refresh_has_cached_rows(self, tmp_path: Path):
        folder = tmp_path / "cache"
        before = load(overlay=folder).on_demand("p5.48xlarge", "us-east-1")
        write(folder, tables.ON_DEMAND, ("p5.48xlarge", "us-east-1", "", "49.5", *ORIGIN))
        after = load(overlay=folder).on_demand("p5.48xlarge", "us-east-1")
        assert isinstance(before, Price)
        assert isinstance(after, Price)
        assert (before.usd, after.usd) == (Decimal("55.04"), Decimal("49.5"))

    def test_cache_is_read_again_on_every_load(self, tmp_path: Path):
        write(tmp_path, tables.ON_DEMAND, ("p5.48xlarge", "us-east-1", "", "49.5", *ORIGIN))
        first = load(overlay=tmp_path)
        write(tmp_path, tables.ON_DEMAND, ("p5.48xlarge", "us-east-1", "", "48.5", *ORIGIN))
        price = load(overlay=tmp_path).on_demand("p5.48xlarge", "us-east-1")
        assert isinstance(price, Price)
        assert price.usd == Decimal("48.5")
        assert load(overlay=tmp_path) is not first
