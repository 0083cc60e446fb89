"""Capacity Blocks come in whole offerings."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from launcher.model.money import Price
from launcher.pricing.blocks import block_days
from launcher.pricing.training_candidate import TrainingCandidate
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import pick, price
from tests.plans import ROOT
from tests.unit.pricing.conftest import price_over


@pytest.mark.parametrize(
    "hours, days",
    [(0.1, 1), (23.5, 1), (23.51, 2), (24 * 14 - 0.5, 14), (24 * 14, 21), (24 * 182 - 0.5, 182), (24 * 182, None)],
)
def test_the_shortest_offering_that_holds_the_job(hours: float, days: int | None) -> None:
    assert block_days(hours) == days


@pytest.mark.parametrize(
    "path", ["trn2-capacity-block.yaml", "eks/p5-capacity-block.yaml", "hyperpod-eks/trn2-training-plan.yaml"]
)
@pytest.mark.parametrize("hours", [48, 0])
def test_a_cluster_that_is_deployed_before_its_block_begins_costs_until_then(path: str, hours: int) -> None:
    now = datetime(2026, 12, 1, 11, 30, tzinfo=UTC) - timedelta(hours=hours)
    quoted = pick(price(ROOT / "examples" / path, now, PriceOptions(any_age=True)), None)[1]
    found = [each.message for each in quoted.findings if each.code == "not-begun"]
    until = quoted.left_up_usd_per_hour
    assert len(found) == bool(hours)
    assert all(f"in 2.0 days: a cluster deployed now costs ${until * 24:,.2f} a day" in each for each in found)


def test_an_offering_is_ranked_by_what_it_is_expected_to_cost():
    wide = {"workload": {"train": {"model": "llama-3.1-8b", "hours": None, "tokens_b": 17, "stack": "framework"}}}
    block = {"instance_type": "p5en.48xlarge", "region": "us-east-2", "nodes": 4}
    short, long = price_over({**wide, "target": block, "purchase": {"option": "capacity-block"}}).candidates
    assert isinstance(short, TrainingCandidate)
    assert isinstance(long, TrainingCandidate)
    assert short.charge
    assert long.charge
    assert isinstance(short.offer.price, Price)
    assert short.usd
    assert long.usd
    assert short.charge.billed_hours == 24
    assert long.charge.billed_hours >= short.work.hours.high
    assert 0.05 < short.charge.outlasts < 0.6
    assert long.charge.outlasts <= 0.05
    fee = short.offer.price.usd * 24 * 4
    extension = short.offer.price.usd * Decimal(repr(short.charge.extension_h * 4))
    assert sum(each.usd or 0 for each in short.components if each.group == "compute") == pytest.approx(fee + extension)
    assert short.charge.extension_h >= short.charge.outlasts * 24
    assert short.usd < long.usd
