"""Price rows as `slipway prices` lists them, and the changes between two days."""

from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest

from launcher.catalog import tables
from launcher.catalog.listing import KINDS, difference, rows
from launcher.catalog.load import Catalog, load
from launcher.model.enums import Basis, Market, PurchaseOption
from launcher.model.money import Price
from tests.checks import some

NOW = date(2026, 11, 20)


def test_history_and_unpriced_rows_are_listed(catalog: Catalog):
    price_rows = rows(catalog, instance_type="trn2.48xlarge", option="on-demand", now=NOW)
    assert [(row.region, row.usd, row.basis, row.current) for row in price_rows] == [
        ("*", None, None, False),
        ("us-east-2", Decimal("85.964"), Basis.UNVERIFIED, False),
    ]
    assert price_rows[0].note == "AWS lists no on-demand price"
    assert price_rows[1].age_days == (NOW - date(2026, 6, 7)).days


def test_current_row_is_pricing_row(catalog: Catalog):
    price_rows = rows(catalog, instance_type="p5.48xlarge", region="us-east-1", option="capacity-block")
    listed = [(row.as_of.isoformat(), str(row.usd)) for row in price_rows if row.current and not row.zone]
    assert listed == [("2026-10-07", "47.76")]
    assert [row.region for row in price_rows if row.basis is Basis.UNVERIFIED] == ["unstated"]


@pytest.mark.parametrize("region", ["us-east-1", "us-west-2"])
def test_current_rows_equal_lookup_prices(catalog: Catalog, region: str):
    for row in some(rows(catalog, region=region, option="on-demand")):
        if row.current and not row.zone:
            price = catalog.on_demand(row.name, region)
            assert isinstance(price, Price)
            assert price.usd == row.usd
    for row in some(rows(catalog, region=region, option="spot")):
        price = catalog.spot(row.name, region)[row.zone]
        assert price.market is row.market or not row.current
        assert row.current == ((price.usd, price.as_of, price.basis) == (row.usd, row.as_of, row.basis))


def test_spot_rows_have_market(catalog: Catalog):
    price_rows = rows(catalog.at(date(2026, 11, 1)), instance_type="trn2.48xlarge", option="spot")
    assert [(row.market, row.zone, row.current) for row in price_rows if row.zone] == [
        (Market.FLOOR, "use2-az3", False),
        (Market.OPEN, "use2-az3", False),
        (Market.OPEN, "use2-az3", True),
    ]


def test_commitments_listed_by_payment_and_savings_plans_marked_derived(catalog: Catalog):
    reserved = rows(catalog, instance_type="trn1.32xlarge", region="us-east-1", option="reserved")
    plans = rows(catalog, instance_type="trn1.32xlarge", region="us-east-1", option="savings-plan")
    assert len(reserved) == len(plans) == 12
    assert {row.detail for row in reserved} == {"standard", "convertible"}
    assert {row.detail for row in plans} == {"compute", "ec2-instance"}
    assert {row.basis for row in plans} == {Basis.DERIVED}
    assert all("assumed equal" in row.note for row in plans)


def test_type_filter_includes_ml_rows_and_no_bill_items(catalog: Catalog):
    assert {row.name for row in rows(catalog, instance_type="p5.48xlarge")} == {"p5.48xlarge", "ml.p5.48xlarge"}
    assert {row.kind for row in rows(catalog)} == set(KINDS)


def test_unavailable_type_is_listed_with_reason(catalog: Catalog):
    (row,) = rows(catalog, instance_type="trn3")
    assert (row.usd, row.note) == (None, "no public type or price")


def test_bill_items_have_units_tiers_and_free_rows(catalog: Catalog):
    rows_by_item = {
        (row.name, row.detail): row
        for row in rows(catalog, region="us-east-1", option="bill-item")
        if row.region != "*"
    }
    assert rows_by_item["s3.standard-storage", "0 to 51200"].unit == "GB-month"
    assert rows_by_item["ebs.gp3-iops", "from 3000"].current
    assert rows_by_item["transfer.from-internet", ""].usd == 0


def test_rows_of_earlier_date_are_rows_known_then(catalog: Catalog):
    assert max(row.as_of for row in rows(catalog.at(date(2025, 4, 1)))) <= date(2025, 4, 1)


def test_difference_across_june_2025_lists_price_cuts(catalog: Catalog):
    changes = difference(catalog, date(2025, 4, 1), date(2025, 6, 25), option=PurchaseOption.ON_DEMAND)
    usd_changes = {}
    for change in changes:
        assert change.what == "changed"
        assert change.before is not None
        assert change.after is not None
        usd_changes[change.after.name] = (str(change.before.usd), str(change.after.usd))
    assert usd_changes == {
        "p5.48xlarge": ("98.32", "55.04"),
        "p5en.48xlarge": ("84.8", "63.296"),
        "p4d.24xlarge": ("32.7726", "21.957642"),
        "p4de.24xlarge": ("40.96575", "27.44705"),
    }


def test_added_and_removed_prices_are_listed(catalog: Catalog):
    early, late = date(2025, 7, 1), date(2025, 8, 1)
    (change,) = difference(catalog, early, late, instance_type="p6-b200.48xlarge", option="on-demand")
    assert (change.what, change.before) == ("added", None)
    (back,) = difference(catalog, late, early, instance_type="p6-b200.48xlarge", option="on-demand")
    assert (back.what, back.after) == ("removed", None)
    assert difference(catalog, late, late) == []


def test_cached_price_appears_as_difference(tmp_path: Path):
    path = tmp_path / tables.SPOT.path
    path.parent.mkdir()
    row = ("p5.48xlarge", "us-east-1", "use1-az2", "22.5", "2026-11-19", "listed", "spot-history", "")
    path.write_text(tables.encode(tables.SPOT, [row]), encoding="utf-8")
    (change,) = difference(load(overlay=tmp_path), date(2026, 11, 18), NOW, option="spot")
    assert (change.what, change.before) == ("added", None)
    assert change.after is not None
    assert (change.after.zone, str(change.after.usd)) == ("use1-az2", "22.5")
