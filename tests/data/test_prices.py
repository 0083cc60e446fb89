"""The shipped price rows: each with a date, a source and a value, none contradicting another, and known anchors."""

import re
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from launcher.catalog import tables
from launcher.catalog.drivers import DRIVERS
from launcher.catalog.load import Catalog, load
from launcher.catalog.market import TOLERANCE_USD
from launcher.catalog.permissions import HANDLERS
from launcher.catalog.registry import REGISTRY
from launcher.catalog.selector import Key
from launcher.catalog.updates import CLUSTER_UPDATES, REPLACEMENT, SERVICE_UPDATES
from launcher.catalog.usage_types import usage_types
from launcher.model.enums import Basis, Market, Payment, SavingsPlanKind
from launcher.model.money import Price, Unpriced
from tests.checks import some

SHIPPED = [table for table in tables.PRICE_TABLES if (tables.SNAPSHOT / table.path).is_file()]
TODAY = datetime.now(UTC).date()


def cells(table: tables.Table) -> list[dict[str, str]]:
    return tables.read_cells(table.path)


def ids(table: tables.Table) -> str:
    return table.path


@pytest.mark.parametrize("table", [*SHIPPED, tables.SOURCES], ids=ids)
def test_price_files_are_sorted_valid_and_without_duplicates(table: tables.Table):
    """`encode` refuses a zero or malformed price, a missing date, an unknown basis, a missing source."""
    rows = list(tables.read_checked(table, tables.SNAPSHOT))
    assert (tables.SNAPSHOT / table.path).read_text(encoding="utf-8") == tables.encode(table, rows)
    assert len({tuple(row) for row in rows}) == len(rows)


@pytest.mark.parametrize("table", SHIPPED, ids=ids)
def test_lines_of_price_files_are_found_by_their_first_cell(table: tables.Table):
    """The catalog bisects the lines by their names, and splits those without quotes at each comma."""
    lines, rows = tables.read_lines(table), tables.read(table)
    names = [f"{line.partition(',')[0]}," for line in lines]
    assert names == sorted(names)
    assert not any('"' in name for name in names)
    assert [tables.cells_of(line) for line in some(lines)] == rows


@pytest.mark.parametrize("table", SHIPPED, ids=ids)
def test_every_price_row_has_a_past_date_and_a_known_source(catalog: Catalog, table: tables.Table):
    for row in some(cells(table)):
        assert date(2023, 1, 1) <= date.fromisoformat(row["as_of"]) <= TODAY, row
        assert row["source"] in catalog.store.sources, row


def test_every_source_is_used(catalog: Catalog):
    files = [
        "accelerators.csv",
        "instance_types.csv",
        "unavailable_types.csv",
        "models.csv",
        "regions.csv",
        REPLACEMENT,
        CLUSTER_UPDATES,
    ]
    files += [
        "chip_software.csv",
        "training_stacks.csv",
        "sockets.csv",
        "price_cuts.csv",
        "quotas.csv",
        HANDLERS,
        REGISTRY,
        SERVICE_UPDATES,
        DRIVERS,
    ]
    files += ["announced_ends.csv", "billing_services.csv"]
    used = {row["source"] for name in files for row in tables.read_cells(name)}
    used |= {row["source"] for table in SHIPPED for row in cells(table)}
    assert used == set(catalog.store.sources)


@pytest.mark.parametrize("table", SHIPPED, ids=ids)
def test_every_price_row_has_a_known_item_region_and_zone(catalog: Catalog, table: tables.Table):
    for row in some(cells(table)):
        if "instance_type" in row:
            assert row["instance_type"].removeprefix("ml.") in catalog.instance_types, row
        else:
            assert re.fullmatch(r"[a-z0-9-]+\.[a-z0-9-]+", row["item"]), row
        assert row["region"] in {*catalog.regions, "*", "unstated"}, row
        if row.get("zone"):
            region = catalog.regions[row["region"]]
            assert row["zone"] in (*region.az_ids, *region.local_zones), row


def test_rows_without_a_price_have_a_note_and_rows_without_a_region_are_unverified():
    for table in some(SHIPPED):
        for row in cells(table):
            if "usd" in row and not row["usd"]:
                assert row["note"], row
            if row["region"] == "unstated":
                assert row["basis"] == "unverified", row
                assert row["note"], row


def test_only_bill_items_have_the_basis_memory():
    for table in some(SHIPPED):
        for row in cells(table):
            assert table is tables.BILL_ITEMS or row.get("basis") != "memory", row


def test_derived_and_unverified_rows_have_a_note():
    for table in (tables.ON_DEMAND, tables.CAPACITY_BLOCKS, tables.SAGEMAKER, tables.SPOT_RANGES):
        for row in some(cells(table)):
            assert row["basis"] == "listed" or row["note"], row


def test_spot_prices_are_not_above_on_demand(catalog: Catalog):
    checked = 0
    for row in cells(tables.SPOT):
        listed = catalog.on_demand(row["instance_type"], row["region"])
        if isinstance(listed, Price):
            assert float(row["usd"]) <= float(listed.usd) + TOLERANCE_USD, row
            checked += 1
    for row in cells(tables.SPOT_RANGES):
        listed = catalog.on_demand(row["instance_type"], row["region"])
        if isinstance(listed, Price):
            highest = max(float(row[name]) for name in ("usd_min", "usd_avg", "usd_max") if row[name])
            assert highest <= float(listed.usd) + TOLERANCE_USD, row
            checked += 1
    assert checked > 600


def test_spot_ranges_are_ordered():
    for row in some(cells(tables.SPOT_RANGES)):
        range_usd = [float(row[name]) for name in ("usd_min", "usd_avg", "usd_max") if row[name]]
        assert range_usd == sorted(range_usd), row


def test_reserved_prices_decrease_with_the_upfront_share():
    for row in some(cells(tables.RESERVED)):
        rates = [float(row[name]) for name in ("all_upfront", "partial_upfront", "no_upfront") if row[name]]
        assert rates == sorted(rates), row


def test_reserved_prices_are_below_on_demand(catalog: Catalog):
    for row in some(cells(tables.RESERVED)):
        listed = catalog.on_demand(row["instance_type"], row["region"])
        if isinstance(listed, Price):
            assert float(row["no_upfront"]) < float(listed.usd), row


def test_on_demand_prices_are_equal_in_us_regions(catalog: Catalog):
    """What the derived head-node prices of us-east-2 and us-west-2 rest on."""
    compared = 0
    for name in catalog.instance_types:
        east = catalog.on_demand(name, "us-east-1")
        for region in ("us-east-2", "us-west-2"):
            there = catalog.on_demand(name, region)
            if isinstance(east, Price) and isinstance(there, Price) and there.basis is Basis.LISTED:
                assert float(there.usd) == pytest.approx(float(east.usd), abs=TOLERANCE_USD), (name, region)
                compared += 1
    assert compared >= 80


@pytest.mark.parametrize(
    "name, region, usd",
    [
        ("p5.48xlarge", "us-east-1", "55.04"),
        ("p5en.48xlarge", "us-east-1", "63.296"),
        ("p4d.24xlarge", "us-east-1", "21.957642"),
        ("p4de.24xlarge", "us-west-2", "27.44705"),
        ("p6-b200.48xlarge", "us-east-1", "113.9328"),
        ("p6-b300.48xlarge", "us-east-1", "142.416"),
        ("trn1.32xlarge", "us-east-2", "21.5"),
        ("trn1n.32xlarge", "us-west-2", "24.78"),
        ("inf2.48xlarge", "us-east-1", "12.98127"),
        ("m5.xlarge", "us-east-2", "0.192"),
    ],
)
def test_on_demand_prices_of_known_types_are_as_published(catalog: Catalog, name: str, region: str, usd: str):
    price = catalog.on_demand(name, region)
    assert isinstance(price, Price)
    assert price.usd == Decimal(usd)


@pytest.mark.parametrize(
    "name, region, usd",
    [
        ("trn2.48xlarge", "us-east-2", "35.7608"),
        ("trn2.3xlarge", "sa-east-1", "2.235"),
        ("trn1.32xlarge", "us-east-1", "9.532"),
        ("p5.48xlarge", "us-east-1", "47.76"),
        ("p5.48xlarge", "eu-north-1", "37.76"),
        ("p5e.48xlarge", "us-east-2", "54.928"),
        ("p5en.48xlarge", "us-west-2", "63.158"),
        ("p6-b200.48xlarge", "us-east-1", "113.664"),
        ("p6-b300.48xlarge", "us-west-2", "129.168"),
        ("u-p6e-gb200x72", "us-east-1", "761.904"),
    ],
)
def test_capacity_block_prices_of_known_types_are_as_published(catalog: Catalog, name: str, region: str, usd: str):
    price = catalog.capacity_block(name, region)
    assert isinstance(price, Price)
    assert price.usd == Decimal(usd)


def test_trn2_on_demand_is_unpriced_with_a_reason_and_an_unverified_row(catalog: Catalog):
    price = catalog.on_demand("trn2.48xlarge", "us-east-2")
    assert isinstance(price, Unpriced)
    assert price.reason == "AWS lists no on-demand price"
    assert price.unverified is not None
    assert price.unverified.usd == Decimal("85.964")
    assert price.unverified.basis is Basis.UNVERIFIED
    assert price.unverified.as_of == date(2026, 6, 7)


def test_newer_unverified_block_rate_is_noted_and_not_used(catalog: Catalog):
    price = catalog.capacity_block("p5en.48xlarge", "ap-northeast-1")
    assert isinstance(price, Price)
    assert price.usd == Decimal("49.928")
    assert "63.16" in price.note


@pytest.mark.parametrize(
    "name, region, zone, market",
    [
        ("trn2.48xlarge", "us-east-2", "use2-az3", Market.FLOOR),
        ("trn1.32xlarge", "us-east-2", "use2-az3", Market.FLOOR),
        ("inf2.xlarge", "us-east-2", "use2-az1", Market.FLOOR),
        ("p6-b200.48xlarge", "us-east-2", "use2-az3", Market.FLOOR),
        ("trn1.32xlarge", "us-west-2", "usw2-az1", Market.NONE),
        ("trn2.3xlarge", "ap-southeast-4", "apse4-az3", Market.NONE),
        ("p5.48xlarge", "us-east-1", "use1-az1", Market.NONE),
        ("p5.48xlarge", "us-west-2", "usw2-az4", Market.OPEN),
        ("p5e.48xlarge", "us-east-2", "use2-az1", Market.OPEN),
    ],
)
def test_spot_rows_without_an_offer_are_marked(catalog: Catalog, name: str, region: str, zone: str, market: Market):
    assert catalog.at(date(2026, 7, 31)).spot(name, region)[zone].market is market


def test_trn2_spot_price_left_the_floor_in_october_2026(catalog: Catalog):
    price = catalog.spot("trn2.48xlarge", "us-east-2")["use2-az3"]
    assert (price.usd, price.market, price.as_of) == (Decimal("15.0887"), Market.OPEN, date(2026, 10, 4))


def test_price_cut_of_june_2025_is_in_the_history():
    before, after = load(prices_as_of=date(2025, 4, 1)), load(prices_as_of=date(2025, 7, 1))
    for name, old, new in (
        ("p5.48xlarge", "98.32", "55.04"),
        ("p5en.48xlarge", "84.8", "63.296"),
        ("p4d.24xlarge", "32.7726", "21.957642"),
        ("p4de.24xlarge", "40.96575", "27.44705"),
    ):
        then, now = before.on_demand(name, "us-east-1"), after.on_demand(name, "us-east-1")
        assert isinstance(then, Price)
        assert isinstance(now, Price)
        assert (then.usd, now.usd) == (Decimal(old), Decimal(new))


def test_capacity_block_increases_are_in_the_history(catalog: Catalog):
    rates = catalog.selector.rows(Key("capacity-block", "p5.48xlarge", "us-east-1"))
    assert [row.usd for row in rates] == ["39.33", "31.464", "31.464", "31.464", "41.528", "47.76"]


def test_savings_plan_prices_are_marked_as_derived(catalog: Catalog):
    compute = catalog.savings_plan("p5.48xlarge", "us-east-1", SavingsPlanKind.COMPUTE, 3, Payment.NO_UPFRONT)
    convertible = catalog.reserved_rate("p5.48xlarge", "us-east-1", "convertible", 3, Payment.NO_UPFRONT)
    assert isinstance(compute, Price)
    assert isinstance(convertible, Price)
    assert compute.usd == convertible.usd
    assert compute.basis is Basis.DERIVED
    assert "assumed" in compute.note
    assert convertible.basis is Basis.LISTED
    ec2 = catalog.savings_plan("trn1.32xlarge", "us-east-1", SavingsPlanKind.EC2_INSTANCE, 3, Payment.ALL_UPFRONT)
    standard = catalog.reserved_rate("trn1.32xlarge", "us-east-1", "standard", 3, Payment.ALL_UPFRONT)
    assert isinstance(ec2, Price)
    assert isinstance(standard, Price)
    assert ec2.usd == standard.usd


def test_p5_has_no_one_year_standard_term(catalog: Catalog):
    assert isinstance(catalog.reserved_rate("p5.48xlarge", "us-east-1", "standard", 1, Payment.NO_UPFRONT), Unpriced)


def test_bill_items_have_one_unit_each():
    units: dict[str, set[str]] = {}
    for row in cells(tables.BILL_ITEMS):
        units.setdefault(row["item"], set()).add(row["unit"])
    assert all(len(units_found) == 1 for units_found in some(units.values()))


def test_free_bill_items_are_listed():
    free = {row["item"] for row in cells(tables.BILL_ITEMS) if row["usd"] == tables.FREE}
    assert free == {
        "budgets.budget",
        "hyperpod.service-fee",
        "hyperpod.task-governance",
        "sagemaker.async-surcharge",
        "ssm.standard-parameters-and-sessions",
        "transfer.from-internet",
        "vpc.gateway-endpoint",
    }


def test_every_priced_bill_item_has_a_live_source():
    """What a support plan costs no list has: a share of the account's bill."""
    is_requested_spot = {usage_type.item for usage_type in usage_types()}
    priced = {row["item"] for row in cells(tables.BILL_ITEMS) if row["usd"] != tables.FREE}
    assert priced - is_requested_spot == {"support.business-minimum", "support.business-rate"}


def test_price_tiers_have_no_gaps(catalog: Catalog):
    for item in some({item for item, _region in catalog.store.bill_items}):
        for region in catalog.regions:
            price = catalog.bill_item(item, region)
            if isinstance(price, Price) and price.tiers:
                assert price.tiers[0].start == 0
                assert price.tiers[-1].end is None
                for lower, upper in zip(price.tiers, price.tiers[1:], strict=False):
                    assert lower.end == upper.start


def test_sagemaker_prices_are_at_least_15_percent_above_ec2(catalog: Catalog):
    """The managed surcharge is 15 % or more wherever both prices are current; some rates are rounded to the cent."""
    for name, region in some(catalog.store.sagemaker):
        listed = catalog.on_demand(name.removeprefix("ml."), region)
        managed = catalog.sagemaker(name, region, "hosting")
        if isinstance(listed, Price) and isinstance(managed, Price):
            assert managed.usd + Decimal("0.01") >= listed.usd * Decimal("1.149"), (name, region)
