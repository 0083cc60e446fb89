"""Doubtful prices are reported: old bill lines, an old interruption band, an unconfirmed newer row."""

from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from launcher.answers.price_ages import ages_lines, price_ages
from launcher.model.enums import Basis
from launcher.model.money import Price
from launcher.pricing import trust

SPOT = {"target": {"instance_type": "p5.48xlarge", "region": "us-west-2"}, "purchase": {"option": "spot"}}
BLOCK = {"target": {"instance_type": "p5en.48xlarge", "region": "ap-northeast-1"}}
BLOCK["purchase"] = {"option": "capacity-block"}


def messages_with(priced, plan, code, **options):
    return [finding.message for finding in priced(plan, **options).quote(1).findings if finding.code == code]


def test_newer_unverified_price_is_named_with_the_price_in_use(priced):
    expected = (
        "p5en.48xlarge capacity block in ap-northeast-1: price used $49.928 (2026-07-22); a newer one, $63.16 "
        "(2026-10-07), is unverified"
    )
    assert messages_with(priced, BLOCK, "contradicted-price") == [expected]
    lines = ages_lines(priced(BLOCK).candidates, 80)
    assert lines[0].startswith("  Prices: capacity block 4 months old")
    assert " ".join(line.strip() for line in lines).endswith(f"{expected}.")


def test_newer_row_does_not_contradict_before_the_date_of_the_row(priced):
    assert messages_with(priced, BLOCK, "contradicted-price", prices_as_of=date(2026, 10, 1)) == []


def test_a_price_of_the_users_own_is_not_contradicted(priced):
    purchase = {"option": "capacity-block", "price_overrides": {"p5en.48xlarge/capacity-block": "50"}}
    assert messages_with(priced, {**BLOCK, "purchase": purchase}, "contradicted-price") == []


@pytest.mark.parametrize("day, old", [(date(2026, 9, 16), False), (date(2026, 9, 17), True)])
def test_a_band_of_the_advisor_has_an_age_limit(priced, day, old):
    now = datetime(day.year, day.month, day.day, 12, tzinfo=UTC)
    assert bool(messages_with(priced, SPOT, "old-band", now=now)) is old


def test_an_own_rate_of_interruptions_needs_no_band(priced):
    changes = {**SPOT, "purchase": {"option": "spot", "interruptions_per_node_hour": 0.01}}
    assert messages_with(priced, changes, "old-band") == []


def test_old_lines_of_the_bill_are_counted_and_the_oldest_is_named(priced):
    (message,) = messages_with(priced, SPOT, "old-bill-prices")
    assert "older than 365 days, the oldest (CloudWatch requests) of 2024-02-22" in message
    early = datetime(2024, 3, 1, 12, tzinfo=UTC)
    assert all("CloudWatch requests" not in text for text in messages_with(priced, SPOT, "old-bill-prices", now=early))


def test_without_a_price_there_is_no_age():
    assert price_ages([]) == ""
    assert ages_lines([], 80) == []


@pytest.mark.parametrize("usd,odd", [("5.40", "under a tenth of"), ("55.10", "over"), ("20", ""), ("5.60", "")])
def test_implausible_spot_price_relative_to_on_demand_is_a_finding(priced, tmp_path, usd, odd):
    from launcher.catalog.fetched_prices import FetchedPrice
    from launcher.catalog.selector import Key
    from launcher.records.price_cache import PriceCache

    key = Key("spot", "p5.48xlarge", "us-east-1", "use1-az2")
    PriceCache(folder=tmp_path).keep([FetchedPrice(key=key, usd=Decimal(usd))], date(2026, 11, 20))
    plan = {
        **SPOT,
        "target": {
            "kind": "parallelcluster",
            "instance_type": "p5.48xlarge",
            "region": "us-east-1",
            "az_id": "use1-az2",
        },
    }
    assert [odd in message for message in found_over(plan, tmp_path)] == ([True] if odd else [])


def found_over(plan, cache):
    """The remarks on odd spot prices of a plan priced with a cache."""
    import yaml

    from launcher import plan_file
    from launcher.catalog.load import load
    from launcher.workflow.quote.options import PriceOptions
    from launcher.workflow.quote.price import price_request

    text = yaml.safe_dump({"slipway": 1, "name": "a", "workload": {"train": {"hours": 2}}, **plan})
    text = text.replace("region: us-east-1", "region: us-east-1\n  nodes: 1")
    now = datetime(2026, 11, 20, 12, tzinfo=UTC)
    catalog = load(overlay=cache, today=now.date())
    options = PriceOptions(cache=cache)
    priced = price_request(Path("a.yaml"), plan_file.loads(text), catalog, now, options)
    return [finding.message for finding in priced.quote(1).findings if finding.code == "odd-spot-price"]


def test_fallen_price_is_reported_with_the_earlier_price():
    fell = "fell by 49% from 55.04 (2026-09-19) to 28"
    price = Price(usd=Decimal(28), source="s", basis=Basis.LISTED, as_of=date(2026, 11, 20), note=f"local; {fell}")
    (finding,) = trust.price_decrease(price)
    assert finding.message == f"the price {fell}"
    assert list(trust.price_decrease(replace(price, note="local"))) == []
