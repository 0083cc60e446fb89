"""Prices of bill items: tiers, free items, unverified prices, and items without a price."""

from datetime import date
from decimal import Decimal

import pytest

from launcher.catalog.load import Catalog, load
from launcher.catalog.tables import read_cells
from launcher.model.enums import Basis
from launcher.model.money import Price, Tier, Unpriced


def priced(catalog: Catalog, item: str, region: str) -> Price:
    bill_price = catalog.bill_item(item, region)
    assert isinstance(bill_price, Price)
    return bill_price


def tier(start: str, end: str | None, usd: str) -> Tier:
    return Tier(start=Decimal(start), end=Decimal(end) if end else None, usd=Decimal(usd))


def test_single_price_has_no_tiers(catalog: Catalog):
    price = priced(catalog, "vpc.nat-gateway", "us-east-1")
    assert (price.usd, price.tiers, price.basis) == (Decimal("0.045"), (), Basis.LISTED)


def test_quantity_tiers_are_read(catalog: Catalog):
    price = priced(catalog, "cloudwatch.custom-metric", "us-east-2")
    assert price.usd == Decimal("0.3")
    assert price.tiers == (
        tier("0", "10000", "0.3"),
        tier("10000", "250000", "0.1"),
        tier("250000", "1000000", "0.05"),
        tier("1000000", None, "0.02"),
    )


def test_included_quantity_is_free_tier(catalog: Catalog):
    price = priced(catalog, "ebs.gp3-iops", "us-east-1")
    assert price.usd == Decimal("0.005")
    assert price.tiers == (tier("0", "3000", "0"), tier("3000", None, "0.005"))


def test_tier_from_memory_is_reported(catalog: Catalog):
    price = priced(catalog, "s3.standard-storage", "us-east-1")
    assert price.basis is Basis.LISTED
    assert "memory above 51200" in price.note
    assert price.as_of == date(2026, 3, 11)


def test_last_known_tier_has_no_end(catalog: Catalog):
    price = priced(catalog, "s3.standard-storage", "us-east-2")
    assert price.tiers == ()
    assert "no price is known above 51200" in price.note


def test_memory_price_used_without_listed_price(catalog: Catalog):
    assert priced(catalog, "ssm.standard-parameters-and-sessions", "eu-west-3").basis is Basis.MEMORY


@pytest.mark.parametrize(
    "item", ["cloudwatch.alarm", "cloudwatch.custom-metric", "lambda.requests", "lambda.duration-x86", "sns.requests"]
)
def test_us_east_1_price_applied_elsewhere_is_derived_and_has_its_source(catalog: Catalog, item: str):
    elsewhere, listed = priced(catalog, item, "eu-west-3"), priced(catalog, item, "us-east-1")
    assert elsewhere.basis is Basis.DERIVED
    assert elsewhere.source == listed.source
    assert elsewhere.usd == listed.usd
    assert "us-east-1 price applied" in elsewhere.note


def test_free_item_has_price_0_and_note(catalog: Catalog):
    price = priced(catalog, "vpc.gateway-endpoint", "eu-west-3")
    assert price.usd == 0
    assert "free of charge" in price.note


@pytest.mark.parametrize(
    "item, region",
    [
        ("vpc.nat-gateway-data", "sa-east-1"),
        ("vpc.interface-endpoint", "eu-north-1"),
        ("s3.put-requests", "il-central-1"),
    ],
)
def test_missing_price_is_derived_and_never_below_us_east_1(catalog: Catalog, item: str, region: str):
    bill_price, anchor = catalog.bill_item(item, region), catalog.bill_item(item, "us-east-1")
    assert bill_price.basis is Basis.DERIVED
    assert bill_price.usd >= anchor.usd > 0
    assert "us-east-1" in bill_price.note or "the highest price known" in bill_price.note


@pytest.mark.parametrize(
    "item", ["ebs.gp3-storage", "ebs.gp3-iops", "ebs.snapshot", "vpc.nat-gateway", "vpc.public-ipv4"]
)
def test_regions_with_accelerators_have_listed_prices(catalog: Catalog, item: str):
    chips = {name for name, facts in catalog.instance_types.items() if facts.accelerator}
    regions = {row["region"] for row in read_cells("offerings.csv") if row["instance_type"] in chips}
    assert len(regions) > 20
    assert {catalog.bill_item(item, region).basis for region in regions} == {Basis.LISTED}


def test_item_without_price_in_any_region_is_unpriced(catalog: Catalog):
    assert isinstance(catalog.bill_item("pcs.controller-small", "us-east-1"), Unpriced)


def test_date_before_first_row_is_unpriced():
    bill_price = load(prices_as_of=date(2024, 1, 1)).bill_item("vpc.nat-gateway", "us-east-1")
    assert isinstance(bill_price, Unpriced)
    assert "on or before 2024-01-01: the first is of 2025-10-28" in bill_price.reason


def test_transfer_between_regions_uses_pair_price_first(catalog: Catalog):
    near, far = catalog.transfer("us-east-1", "us-east-2"), catalog.transfer("us-east-1", "eu-west-1")
    assert isinstance(near, Price)
    assert isinstance(far, Price)
    assert (near.usd, far.usd) == (Decimal("0.01"), Decimal("0.02"))
    assert catalog.transfer("sa-east-1", "us-east-1").basis is Basis.DERIVED


@pytest.mark.parametrize(
    "item, region, usd",
    [
        ("cloudwatch.logs-ingestion", "ap-northeast-2", "0.76"),
        ("cloudwatch.logs-ingestion", "eu-west-2", "0.5985"),
        ("s3.put-requests", "sa-east-1", "0.007"),
        ("s3.get-requests", "eu-central-1", "0.00043"),
    ],
)
def test_listed_regional_price_used_instead_of_derived(catalog: Catalog, item: str, region: str, usd: str):
    bill_price = priced(catalog, item, region)
    assert (bill_price.basis, bill_price.usd) == (Basis.LISTED, Decimal(usd))
