"""The rest of the bill: tiers by the month, data between regions, what a kind of cluster has and has not."""

import re
from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest

from launcher.catalog.bill_items import BillItem
from launcher.catalog.load import load
from launcher.model.enums import Basis
from launcher.model.money import Price, Tier, Unpriced
from launcher.pricing import bill
from launcher.pricing.bill import component, tiered

TIERS = (
    Tier(start=Decimal(0), end=Decimal(10), usd=Decimal(2)),
    Tier(start=Decimal(10), end=None, usd=Decimal(1)),
)
PRICE = Price(usd=Decimal(2), source="x", basis=Basis.LISTED, as_of=date(2026, 1, 1), tiers=TIERS)


@pytest.mark.parametrize("quantity, usd", [(0, 0), (4, 8), (10, 20), (15, 25)])
def test_each_tier_has_its_own_price(quantity, usd):
    assert tiered(PRICE, quantity) == usd


def test_tiers_begin_anew_every_month():
    assert component("x", "storage", "GB-month", 40, PRICE).usd == 50
    assert component("x", "storage", "GB-month", 40, PRICE, months=4.0).usd == 80
    assert component("x", "storage", "GB-month", 60, PRICE, months=4.0).usd == 100


def test_the_bill_names_its_items_as_the_catalog_does():
    source = Path(bill.__file__).read_text(encoding="utf-8")
    named = set(re.findall(r'"((?:cloudwatch|ebs|fsx|s3|vpc)\.[a-z0-9-]+)"', source))
    assert len(named) == 12
    assert named <= {item.value for item in BillItem}


def test_a_line_without_a_price_is_no_zero():
    line = component("x", "storage", "GB", 5, Unpriced(reason="nobody says"))
    assert (line.usd, line.unit_price_usd, line.unpriced) == (None, None, "nobody says")


def lines(found):
    return {each.name: each for each in found.quote(1).components}


def test_training_data_pay_for_their_way_from_another_region(priced):
    def train(region):
        return {"workload": {"train": {"data": {"gib": 1000, "region": region}}}}

    here, there = lines(priced(train("us-east-1"))), lines(priced(train("us-west-2")))
    moved = there["training data from us-west-2"]
    assert "training data from us-east-1" not in here
    assert moved.quantity == pytest.approx(1073.741824)
    assert moved.unit_price_usd == load().transfer("us-west-2", "us-east-1").usd
    assert moved.group == "network"


def test_a_pair_of_regions_with_a_price_of_its_own_has_it(priced):
    catalog = load()
    pair, other = catalog.transfer("us-east-1", "us-east-2"), catalog.transfer("us-east-1", "us-west-2")
    assert pair.usd < other.usd
    train = {"workload": {"train": {"data": {"gib": 10, "region": "us-east-1"}}}}
    moved = lines(priced({**train, "target": {"region": "us-east-2"}}))["training data from us-east-1"]
    assert moved.unit_price_usd == pair.usd


def test_a_line_without_a_price_warns_and_leaves_the_total_incomplete(priced):
    quoted = priced(
        {"target": {"instance_type": "p5en.48xlarge", "region": "eu-south-2"}, "purchase": {"option": "spot"}}
    )
    first = quoted.quote(1)
    unpriced = [each for each in first.components if each.unpriced]
    assert first.incomplete
    assert unpriced
    assert {each.code for each in first.findings} >= {"unpriced-line"}
    assert first.usd.mid == sum(each.usd for each in first.components if each.usd is not None)


def test_storage_in_the_plan_is_storage_in_the_bill(priced):
    storage = {"lustre_gib": 2400, "lustre_mb_s_per_tib": 500, "login_nodes": 2}
    found = lines(priced({"storage": storage, "checkpoint": {"keep": 5}}))
    plain = lines(priced())
    lustre = found["FSx for Lustre 2400 GiB"]
    assert lustre.unit_price_usd == load().bill_item(BillItem.FSX_LUSTRE_PERSISTENT_500, "us-east-1").usd
    assert lustre.quantity == pytest.approx(2400 * 10.5 / 730)
    assert found["2 login nodes m6i.large"].quantity == pytest.approx(2 * 10.5)
    assert found["EBS gp3 root volumes"].quantity == pytest.approx((100 * 3 * 10.5 + 100 * 10) / 730)
    assert found["S3 checkpoints"].quantity == pytest.approx(plain["S3 checkpoints"].quantity * 5 / 3)


def test_a_network_that_exists_has_its_own_way_out(priced):
    network = {"vpc_id": "vpc-01234567", "subnet_ids": ["subnet-01234567"]}
    found = priced({"network": network}).quote(1)
    assert not [each for each in found.components if each.group == "network"]


def test_a_job_that_never_saves_stores_nothing(priced):
    assert not [name for name in lines(priced({"checkpoint": {"mode": "none"}})) if name.startswith("S3")]


def test_every_line_says_where_its_price_is_from(priced):
    for each in priced().quote(1).components:
        assert each.source
        assert each.basis in {"listed", "derived", "memory"}
        assert each.as_of
