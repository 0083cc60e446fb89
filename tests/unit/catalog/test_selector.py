"""One selector compares published and derived rows by a single rule."""

from datetime import date
from pathlib import Path

import pytest

from launcher.catalog import tables
from launcher.catalog.listing import rows
from launcher.catalog.load import Catalog, load
from launcher.catalog.selector import Key, zoned_rows
from launcher.model.enums import Basis
from launcher.model.money import Price, Unpriced
from tests.checks import some

PLACE = ("p5.48xlarge", "us-east-1")
PLAN = Key("savings-plan", *PLACE, "", "compute", 3, "no-upfront")
RESERVED = PLAN._replace(kind="reserved", detail="convertible")
CLUSTER = Key("sagemaker", "ml.p5.48xlarge", "us-east-1", detail="cluster")
TRAINING = CLUSTER._replace(detail="training")


def catalog_with(folder: Path, *table_rows: tuple[tables.Table, tuple[str, ...]]) -> Catalog:
    for table, row in table_rows:
        path = folder / table.path
        path.parent.mkdir(exist_ok=True)
        path.write_text(tables.encode(table, [row]), encoding="utf-8")
    return load(overlay=folder)


def reserve(usd: str, as_of: str, basis: str = "listed") -> tuple[tables.Table, tuple[str, ...]]:
    return tables.RESERVED, (*PLACE, "convertible", "3", usd, "", "", as_of, basis, "s", "")


def plan(usd: str, as_of: str, basis: str = "listed") -> tuple[tables.Table, tuple[str, ...]]:
    return tables.SAVINGS_PLANS, (*PLACE, "compute", "3", usd, "", "", as_of, basis, "s", "")


def managed_rows(component: str, usd: str, as_of: str, basis: str = "listed") -> tuple[tables.Table, tuple[str, ...]]:
    return tables.SAGEMAKER, ("ml.p5.48xlarge", "us-east-1", component, usd, as_of, basis, "s", "")


@pytest.mark.parametrize(
    "read, equal, usd, basis",
    [
        (plan("41.5", "2026-11-19"), reserve("50", "2026-11-18"), "41.5", "listed"),
        (plan("41.5", "2026-11-18"), reserve("50", "2026-11-19"), "50", "derived"),
        (plan("41.5", "2026-11-19"), reserve("50", "2026-11-19"), "41.5", "listed"),
        (plan("41.5", "2026-11-19", "derived"), reserve("50", "2026-11-19"), "50", "derived"),
        (plan("41.5", "2026-11-18"), reserve("50", "2026-11-19", "unverified"), "41.5", "listed"),
        (plan("41.5", "2026-11-19", "unverified"), reserve("50", "2026-11-18"), "50", "derived"),
    ],
)
def test_read_and_derived_savings_plans_compete_by_newest(tmp_path: Path, read, equal, usd: str, basis: str):
    row = catalog_with(tmp_path, read, equal).selector.row(PLAN)
    assert row is not None
    assert (row.usd, row.basis) == (usd, basis)


@pytest.mark.parametrize(
    "usd, as_of, basis, component",
    [
        ("70", "2026-11-19", "listed", "hosting"),
        ("70", "2026-11-19", "unverified", "training"),
        ("70", "2020-01-01", "listed", "training"),
    ],
)
def test_sagemaker_rate_of_newer_other_component_is_used(tmp_path: Path, usd, as_of, basis, component):
    row = catalog_with(tmp_path, managed_rows("hosting", usd, as_of, basis)).selector.row(TRAINING)
    assert row is not None
    assert row.zone == component
    assert ("billed alike" in row.note) == (component == "hosting")


def test_hyperpod_rate_uses_only_cluster_component(tmp_path: Path):
    selector = catalog_with(tmp_path, managed_rows("hosting", "70", "2026-11-19")).selector
    assert [row.zone for row in selector.rows(CLUSTER)] == ["cluster"]
    later = catalog_with(tmp_path, managed_rows("cluster", "80", "2026-11-19")).selector
    assert "cluster" not in {row.zone for row in later.rows(TRAINING)}


def test_price_of_own_component_wins_tie(tmp_path: Path):
    path = tmp_path / tables.SAGEMAKER.path
    path.parent.mkdir()
    sagemaker_rows = [managed_rows("cluster", "60", "2026-11-19")[1], managed_rows("hosting", "70", "2026-11-19")[1]]
    path.write_text(tables.encode(tables.SAGEMAKER, sagemaker_rows), encoding="utf-8")
    row = load(overlay=tmp_path).selector.row(CLUSTER)
    assert row is not None
    assert (row.usd, row.basis) == ("60", "listed")


def test_unverified_reservation_is_not_listed_as_savings_plan(tmp_path: Path):
    catalog = catalog_with(tmp_path, reserve("9", "2026-11-19", "unverified"))
    price_rows = rows(catalog, instance_type=PLACE[0], region=PLACE[1], option="savings-plan")
    assert all(str(row.usd) != "9" for row in price_rows)
    shown = rows(catalog, instance_type=PLACE[0], region=PLACE[1], option="reserved")
    assert [row.basis for row in shown if str(row.usd) == "9"] == [Basis.UNVERIFIED]


def test_newer_unverified_row_is_named_in_note(tmp_path: Path):
    price = catalog_with(tmp_path, reserve("9", "2026-11-19", "unverified")).price(RESERVED)
    assert isinstance(price, Price)
    assert str(price.usd) != "9"
    assert "a newer unverified row says 9 (2026-11-19)" in price.note


def test_listing_marks_pricing_row_as_current(catalog: Catalog):
    for kind in ("on-demand", "spot", "capacity-block", "reserved", "savings-plan", "sagemaker"):
        current = {row.key: row for row in rows(catalog, region="us-east-1", option=kind) if row.current}
        assert current
        for key, row in current.items():
            price = catalog.price(key)
            assert isinstance(price, Price), key
            assert (price.usd, price.as_of, price.basis) == (row.usd, row.as_of, row.basis), key


@pytest.mark.parametrize("day", [None, date(2025, 12, 31)])
def test_every_price_has_listed_or_derived_row_of_allowed_date(day: date | None):
    catalog = load(prices_as_of=day)
    for kind in ("on-demand", "capacity-block"):
        for name, region in some(zoned_rows(catalog.store, kind)):
            price = catalog.price(Key(kind, name, region))
            row = catalog.selector.row(Key(kind, name, region))
            assert (row is None) == isinstance(price, Unpriced)
            if row is not None:
                assert row.basis in ("listed", "derived")
                assert row.as_of <= catalog.until


def spot(folder: Path, *rows: tuple[str, str, str]) -> Catalog:
    """A catalog with spot prices of a type that has none in this region otherwise: zone, price, day."""
    path = folder / tables.SPOT.path
    path.parent.mkdir(exist_ok=True)
    lines = [("p6-b300.48xlarge", "us-east-2", zone, usd, day, "listed", "s", "") for zone, usd, day in rows]
    path.write_text(tables.encode(tables.SPOT, lines), encoding="utf-8")
    return load(overlay=folder)


SPOT = Key("spot", "p6-b300.48xlarge", "us-east-2", "use2-az1")


def test_newer_regional_spot_price_replaces_zone_price_with_note(tmp_path: Path):
    zones = (("use2-az1", "16", "2026-11-01"), ("use2-az2", "18", "2026-11-05"))
    catalog = spot(tmp_path, *zones, ("", "51", "2026-11-03"))
    first, second = (catalog.price(SPOT._replace(zone=zone)) for zone in ("use2-az1", "use2-az2"))
    assert isinstance(first, Price)
    assert isinstance(second, Price)
    assert (str(first.usd), first.basis, "newer than the zone's own" in first.note) == ("51", Basis.DERIVED, True)
    assert (str(second.usd), second.basis) == ("18", Basis.LISTED)
    assert catalog.selector.spot_zones("p6-b300.48xlarge", "us-east-2") == ("use2-az2", None)


def test_newer_zone_spot_prices_replace_regional_price_by_highest(tmp_path: Path):
    zones = (("use2-az1", "16", "2026-11-05"), ("use2-az2", "18", "2026-11-05"), ("use2-az3", "40", "2026-11-04"))
    price = spot(tmp_path, *zones, ("", "51", "2026-11-03")).price(SPOT._replace(zone=""))
    assert isinstance(price, Price)
    assert (str(price.usd), price.basis, "the dearest zone's" in price.note) == ("18", Basis.DERIVED, True)


def test_zone_spot_price_of_same_day_is_kept(tmp_path: Path):
    catalog = spot(tmp_path, ("use2-az1", "16", "2026-11-03"), ("", "51", "2026-11-03"))
    row = catalog.selector.row(SPOT)
    assert row is not None
    assert row.usd == "16"
    assert catalog.selector.spot_zones("p6-b300.48xlarge", "us-east-2") == ("use2-az1", None)


def test_region_without_spot_prices_has_one_entry():
    assert load().selector.spot_zones("p6-b300.48xlarge", "us-east-2") == (None,)
