"""Plain numbers for ranking equal the prices that look-ups give."""

from datetime import date
from pathlib import Path

import pytest

from launcher.catalog import tables
from launcher.catalog.load import Catalog, load
from launcher.catalog.rates import Rate, rates
from launcher.model.enums import Payment, PlanKind, PurchaseOption
from launcher.model.money import Price, Unpriced


def look_up(catalog: Catalog, option: PurchaseOption, rate: Rate) -> Price | Unpriced:
    name, region = rate.instance_type, rate.region
    match option:
        case PurchaseOption.ON_DEMAND:
            return catalog.on_demand(name, region, zone=rate.zone)
        case PurchaseOption.SPOT:
            return catalog.spot(name, region)[rate.zone]
        case PurchaseOption.CAPACITY_BLOCK:
            return catalog.capacity_block(name, region, zone=rate.zone)
        case PurchaseOption.TRAINING_PLAN:
            return catalog.training_plan(name, region)
        case PurchaseOption.RESERVED:
            assert rate.kind in ("standard", "convertible")
            return catalog.reserved(name, region, rate.kind, rate.term_years, Payment(rate.payment))
        case _:
            return catalog.savings_plan(name, region, PlanKind(rate.kind), rate.term_years, Payment(rate.payment))


@pytest.mark.parametrize("option", PurchaseOption)
@pytest.mark.parametrize("day", [None, date(2025, 12, 31)])
def test_rates_are_the_prices(option: PurchaseOption, day: date | None):
    catalog = load(prices_as_of=day)
    found = list(rates(catalog, option))
    assert len({rate[:3] + rate[6:] for rate in found}) == len(found)
    for rate in found:
        price = look_up(catalog, option, rate)
        assert isinstance(price, Price)
        assert (float(price.usd), price.as_of.isoformat(), price.market) == (rate.usd, rate.as_of, rate.market)


def test_every_look_up_with_a_price_is_among_the_rates(catalog: Catalog):
    listed = {(rate.instance_type, rate.region) for rate in rates(catalog, PurchaseOption.ON_DEMAND) if not rate.zone}
    for name in catalog.instance_types:
        for region in catalog.regions:
            assert ((name, region) in listed) == isinstance(catalog.on_demand(name, region), Price)


def test_rates_read_from_aws_replace_derived_ones(tmp_path: Path):
    path = tmp_path / tables.SAVINGS_PLANS.path
    path.parent.mkdir()
    row = ("p5.48xlarge", "us-east-1", "compute", "3", "41.5", "", "", "2026-11-19", "listed", "s", "")
    path.write_text(tables.encode(tables.SAVINGS_PLANS, [row]), encoding="utf-8")
    catalog = load(overlay=tmp_path)
    found = {rate[:2] + rate[6:]: rate.usd for rate in rates(catalog, PurchaseOption.SAVINGS_PLAN)}
    assert found["p5.48xlarge", "us-east-1", "compute", 3, "no-upfront"] == 41.5
    assert len(found) == len(list(rates(load(), PurchaseOption.SAVINGS_PLAN)))
