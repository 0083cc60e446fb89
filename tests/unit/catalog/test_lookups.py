"""Catalog lookups, with and without a price."""

from datetime import date
from decimal import Decimal

import pytest

from launcher.catalog.load import Catalog, load
from launcher.catalog.market import InterruptionBand, market_of
from launcher.catalog.selector import Key
from launcher.catalog.store import Row
from launcher.model.enums import Basis, Market, Payment, PurchaseOption
from launcher.model.money import Price, Unpriced


def reason(price: Price | Unpriced) -> str:
    assert isinstance(price, Unpriced)
    return price.reason


def test_absent_price_gives_reason(catalog: Catalog):
    day = load(prices_as_of=date(2025, 4, 1))
    assert (
        reason(catalog.on_demand("p5.48xlarge", "eu-west-1"))
        == "no on-demand price of p5.48xlarge in eu-west-1 is known"
    )
    assert "on or before 2025-04-01: the first is of 2026-01-21" in reason(day.on_demand("p5.48xlarge", "us-east-2"))
    assert reason(catalog.on_demand("p9.48xlarge", "us-east-1")) == "no instance type p9.48xlarge in the catalog"
    assert reason(catalog.on_demand("trn3", "us-east-1")) == "no public type or price"
    assert (
        reason(catalog.capacity_block("trn1n.32xlarge", "us-east-1")) == "EC2 sells no capacity block of trn1n.32xlarge"
    )
    assert reason(catalog.price(Key("spot", "trn2u.48xlarge", "ap-south-2"))) == "EC2 sells no spot of trn2u.48xlarge"
    assert "no standard reserved price of p5e.48xlarge" in reason(
        catalog.reserved_rate("p5e.48xlarge", "us-east-2", "standard", 3, Payment.NO_UPFRONT)
    )
    assert "no SageMaker price of ml.p5e.48xlarge" in reason(
        catalog.sagemaker("ml.p5e.48xlarge", "us-east-2", "hosting")
    )


def test_repeated_lookup_gives_equal_price(catalog: Catalog):
    assert catalog.on_demand("p5.48xlarge", "us-east-1") == load().on_demand("p5.48xlarge", "us-east-1")
    assert catalog.spot("p5.48xlarge", "us-east-1") == load().spot("p5.48xlarge", "us-east-1")


def test_catalog_at_other_date_shares_store(catalog: Catalog):
    then = catalog.at(date(2025, 4, 1))
    price = then.on_demand("p5.48xlarge", "us-east-1")
    assert isinstance(price, Price)
    assert price.usd == Decimal("98.32")
    assert then.store is catalog.store
    assert then.prices_as_of == date(2025, 4, 1)


def test_spot_row_market_tells_floor_none_or_open(catalog: Catalog):
    prices = catalog.at(date(2026, 7, 31)).spot("trn1.32xlarge", "us-west-2")
    assert prices["usw2-az1"].market is Market.NONE
    assert prices["usw2-az4"].market is Market.OPEN
    then = catalog.at(date(2026, 9, 1))
    assert {price.market for price in then.spot("trn2.48xlarge", "us-east-2").values()} == {Market.FLOOR}


def test_spot_of_region_without_zones_is_empty(catalog: Catalog):
    assert catalog.at(date(2026, 7, 31)).spot("g5.xlarge", "us-east-1") == {}
    assert catalog.store.spot_ranges["g5.xlarge", "us-east-1"]


@pytest.mark.parametrize(
    "spot, on_demand, expected",
    [
        ("55.04", [("55.04", "listed")], Market.NONE),
        ("55.0401", [("55.04", "listed")], Market.NONE),
        ("54.6", [("55.04", "listed")], Market.NONE),
        ("54.4", [("55.04", "listed")], Market.OPEN),
        ("0.0758", [("0.7582", "listed")], Market.FLOOR),
        ("0.0761", [("0.7582", "listed")], Market.OPEN),
        ("8.5964", [("85.964", "unverified")], Market.FLOOR),
        ("8.5964", [("85.964", "unverified"), ("70", "listed")], Market.OPEN),
        ("9.832", [("55.04", "listed"), ("98.32", "listed")], Market.FLOOR),
        ("12", [], Market.OPEN),
        ("12", [("", "listed")], Market.OPEN),
    ],
)
def test_spot_market_follows_ratio_to_on_demand(spot: str, on_demand: list[tuple[str, str]], expected: Market):
    rows = [Row(zone="", usd=usd, as_of="2026-01-01", basis=basis, source="s", note="") for usd, basis in on_demand]
    assert market_of(spot, rows) is expected


def test_newer_interruption_band_is_used(catalog: Catalog):
    band = catalog.interruption_band("p5.48xlarge", "us-east-1")
    assert band is not None
    assert (band.low_percent, band.high_percent, band.savings_percent) == (0, 5, 57)
    assert band.as_of == date(2026, 3, 20)
    highest = catalog.interruption_band("c5.12xlarge", "af-south-1")
    assert isinstance(highest, InterruptionBand)
    assert (highest.low_percent, highest.high_percent) == (20, None)
    assert catalog.interruption_band("p6-b300.48xlarge", "us-east-1") is None
    assert catalog.at(date(2025, 7, 1)).interruption_band("p5.48xlarge", "us-east-1") != band


def test_local_zone_is_priced_separately(catalog: Catalog):
    assert isinstance(catalog.on_demand("p5.48xlarge", "us-east-1", zone="us-east-1-atl-1"), Price)
    only_there = catalog.capacity_block("u-p6e-gb200x36", "us-east-1")
    assert isinstance(only_there, Price)
    assert "local zone us-east-1-dfw-2a" in only_there.note
    assert only_there.usd == Decimal("380.952")


def test_sagemaker_price_uses_newer_rate_of_other_component(catalog: Catalog):
    price = catalog.at(date(2026, 9, 1)).sagemaker("ml.p5.48xlarge", "us-east-1", "hosting")
    assert isinstance(price, Price)
    assert (price.usd, price.basis) == (Decimal("63.296"), Basis.DERIVED)
    assert "billed alike" in price.note
    early = load(prices_as_of=date(2025, 3, 1)).sagemaker("ml.p5.48xlarge", "us-east-1", "hosting")
    assert isinstance(early, Price)
    assert early.usd == Decimal("113.068")
    studio = catalog.sagemaker("ml.g5.xlarge", "us-west-2", "hosting")
    assert isinstance(studio, Price)
    assert (studio.usd, studio.basis) == (Decimal("1.41"), Basis.DERIVED)


def test_newer_training_rate_is_not_used_for_hyperpod():
    """HyperPod's surcharge is a fifth where SageMaker's others is 15 %: a newer row of those says nothing of it."""
    for name, region in load().store.sagemaker:
        cluster, training = (load().sagemaker(name, region, component) for component in ("cluster", "training"))
        if isinstance(cluster, Price) and isinstance(training, Price):
            assert cluster.usd > training.usd or "g6e" in name, (name, region)
    price = load().sagemaker("ml.g6e.48xlarge", "us-east-2", "cluster")
    assert isinstance(price, Price)
    assert price.usd == Decimal("37.66")


def test_suspect_sagemaker_row_is_unpriced():
    price = load(prices_as_of=date(2025, 3, 1)).sagemaker("ml.trn1.32xlarge", "us-east-1", "hosting")
    assert isinstance(price, Unpriced)
    assert price.unverified is not None
    assert price.unverified.usd == Decimal("28.497")


def test_regions_offering_a_type_are_listed(catalog: Catalog):
    assert set(catalog.regions_of("trn2.48xlarge")) == {"us-east-2", "ap-south-2"}
    assert catalog.offers("p5.48xlarge", "us-east-1")
    assert not catalog.offers("p5.48xlarge", "eu-west-3")
    assert catalog.regions_of("p9.48xlarge") == ()


@pytest.mark.parametrize(
    "name, option, regions",
    [
        ("trn2.48xlarge", PurchaseOption.ON_DEMAND, {"us-east-2", "ap-south-2"}),
        ("trn2.48xlarge", PurchaseOption.CAPACITY_BLOCK, {"us-east-2", "ap-south-2"}),
        ("trn2.48xlarge", PurchaseOption.RESERVED, set()),
        ("trn2u.48xlarge", PurchaseOption.SPOT, set()),
        ("trn1n.32xlarge", PurchaseOption.CAPACITY_BLOCK, set()),
        ("trn1n.32xlarge", PurchaseOption.RESERVED, {"us-east-1", "us-east-2", "us-west-2"}),
        ("trn1n.32xlarge", PurchaseOption.SAVINGS_PLAN, {"us-east-1", "us-east-2", "us-west-2"}),
        ("trn1n.32xlarge", PurchaseOption.TRAINING_PLAN, set()),
        ("p6-b300.48xlarge", PurchaseOption.BEDROCK, set()),
        ("p9.48xlarge", PurchaseOption.ON_DEMAND, set()),
    ],
)
def test_regions_are_listed_by_purchase_option(catalog: Catalog, name: str, option: PurchaseOption, regions: set[str]):
    assert set(catalog.regions_offering(name, option)) == regions


def test_training_plans_are_offered_in_regions_of_type(catalog: Catalog):
    offered = catalog.regions_offering("p5.48xlarge", PurchaseOption.TRAINING_PLAN)
    assert offered == catalog.regions_of("p5.48xlarge")


def test_training_rate_of_sagemaker_without_a_row_is_ec2s_times_the_types_ratio(catalog: Catalog):
    """No source has ml.p4d.24xlarge in eu-west-1; in us-east-1 it costs 1.15 times EC2's rate."""
    price = catalog.sagemaker("ml.p4d.24xlarge", "eu-west-1", "training")
    plain = catalog.on_demand("p4d.24xlarge", "eu-west-1")
    assert isinstance(price, Price)
    assert isinstance(plain, Price)
    assert price.basis == Basis.DERIVED
    assert price.usd == pytest.approx(plain.usd * Decimal("1.15"), rel=Decimal("0.001"))
    assert "EC2's rate here times 1.150, SageMaker's over EC2's in us-east-1" in price.note
    assert price.as_of <= plain.as_of


def test_derived_training_rate_is_the_one_published_outside_the_us(catalog: Catalog):
    """APN1-Train:ml.g6.xlarge costs 1.634 in the AmazonSageMaker offer file of 2026-09-23, by a public cost model."""
    price = catalog.sagemaker("ml.g6.xlarge", "ap-northeast-1", "training")
    assert isinstance(price, Price)
    assert price.usd == pytest.approx(Decimal("1.634"), rel=Decimal("0.001"))


@pytest.mark.parametrize(
    "name, region, component, ratio",
    [
        ("ml.g5.2xlarge", "eu-west-1", "hosting", "1.254"),
        ("ml.inf2.xlarge", "eu-west-1", "hosting", "1.306"),
        ("ml.p4d.24xlarge", "eu-west-1", "cluster", "1.180"),
        ("ml.p5.48xlarge", "eu-north-1", "cluster", "1.200"),
    ],
)
def test_endpoint_and_hyperpod_rates_without_a_row_have_the_components_own_ratio(
    catalog: Catalog, name: str, region: str, component: str, ratio: str
):
    price = catalog.sagemaker(name, region, component)
    plain = catalog.on_demand(name.removeprefix("ml."), region)
    assert isinstance(price, Price)
    assert isinstance(plain, Price)
    assert price.basis == Basis.DERIVED
    assert price.usd == pytest.approx(plain.usd * Decimal(ratio), rel=Decimal("0.001"))
    assert f"EC2's rate here times {ratio}, SageMaker's over EC2's in us-east-1" in price.note


@pytest.mark.parametrize(
    "name, region, component",
    [
        ("ml.p5e.48xlarge", "eu-north-1", "training"),
        ("ml.p4d.24xlarge", "eu-south-1", "training"),
        ("ml.p4d.24xlarge", "eu-west-1", "studio"),
        ("ml.inf2.xlarge", "eu-west-1", "cluster"),
    ],
)
def test_no_sagemaker_rate_is_derived_without_both_rates(catalog: Catalog, name: str, region: str, component: str):
    """Of p5e, and of EC2's p4d in Milan, no price is known; HyperPod has no Inferentia, and no job runs in Studio."""
    assert isinstance(catalog.sagemaker(name, region, component), Unpriced)
