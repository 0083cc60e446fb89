"""Spot prices change: a total has a price range that widens with age, and the gate uses its high end."""

from collections import defaultdict
from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal
from itertools import pairwise
from math import log, sqrt
from pathlib import Path
from statistics import median_high

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from launcher.catalog import tables
from launcher.catalog.load import load
from launcher.model.enums import Basis, PurchaseOption, TargetKind
from launcher.model.money import Price
from launcher.model.plan import Place
from launcher.pricing.hazard import hazard
from launcher.pricing.spot_prices import MOVES, spot_price
from launcher.records.documents import candidate
from tests.plans import NOW

CATALOG = load()
TODAY = NOW.date()
SPOT = {"purchase": {"option": "spot"}}
P5EN = Place(
    target=TargetKind.PARALLELCLUSTER,
    instance_type="p5en.48xlarge",
    nodes=1,
    region="us-east-2",
    az_id="use2-az3",
    option=PurchaseOption.SPOT,
)


def old(usd: str, as_of: date) -> Price:
    return Price(usd=Decimal(usd), source="x", basis=Basis.LISTED, as_of=as_of)


def test_the_least_zone_of_a_winter_day_is_held_against_its_region():
    before = load(prices_as_of=date(2025, 12, 31))
    price = before.spot("p5en.48xlarge", "us-east-2")["use2-az3"]
    assert price.usd == Decimal("9.3944")
    assert spot_price(P5EN, price, before, date(2025, 12, 22)).usd.high > Decimal("17.0945")
    assert spot_price(P5EN, price, before, TODAY).usd.high > Decimal("26.6")


def test_it_stays_between_a_tenth_of_on_demand_and_on_demand():
    price = CATALOG.spot("p5.48xlarge", "us-east-1")["use1-az6"]
    place = replace(P5EN, instance_type="p5.48xlarge", region="us-east-1", az_id="use1-az6")
    usd_range = spot_price(place, price, CATALOG, TODAY + timedelta(days=10_000)).usd
    assert (usd_range.low, usd_range.high) == (Decimal("5.504"), Decimal("55.04"))


def test_a_users_own_price_has_no_range(priced):
    quoted = priced({"purchase": {"option": "spot", "price_overrides": {"p5.48xlarge/spot": "18"}}}).quote(1)
    assert quoted.price_range.low == quoted.price_range.high == Decimal(18)


def test_the_document_has_the_range_and_the_total_rests_on_it(priced):
    quoted = priced(SPOT).quote(1)
    json_candidate = candidate(quoted, 1, CATALOG.instance_types)
    assert Decimal(json_candidate["price"]["range"]["high"]) == quoted.price_range.high > quoted.price.usd
    assert Decimal(json_candidate["price"]["range"]["low"]) == quoted.price_range.low < quoted.price.usd
    assert quoted.usd.high >= quoted.price_range.high * Decimal(repr(quoted.hours.high))
    assert "range" not in candidate(priced().quote(1), 1, CATALOG.instance_types)["price"]


def test_the_gate_sees_the_high_end(priced):
    quoted = priced(SPOT, any_age=True).quote(1)
    between = (quoted.price.usd * Decimal(repr(quoted.hours.high + 1)) + quoted.usd.high) / 2
    assert priced({**SPOT, "budget": {"max_usd": float(between)}}, any_age=True).quote(1).gate.exit_code == 3


@settings(max_examples=100)
@given(days=st.integers(0, 2_000), more=st.integers(0, 2_000), usd=st.decimals("1", "90", places=4))
def test_an_older_price_never_makes_the_high_end_lower(days, more, usd):
    newer = spot_price(P5EN, old(str(usd), TODAY - timedelta(days=days)), CATALOG, TODAY).usd
    older = spot_price(P5EN, old(str(usd), TODAY - timedelta(days=days + more)), CATALOG, TODAY).usd
    assert older.high >= newer.high
    assert older.low <= newer.low


def with_band(folder: Path, band: int):
    path = folder / tables.INTERRUPTIONS.path
    path.parent.mkdir(parents=True)
    row = ("p5.48xlarge", "us-east-1", str(band), "50", "2026-11-19", "s")
    path.write_text(tables.encode(tables.INTERRUPTIONS, [row]), encoding="utf-8")
    return load(overlay=folder)


def test_a_wider_band_never_makes_the_high_estimate_lower(tmp_path):
    from launcher import plan_file
    from launcher.workflow.quote.options import PriceOptions
    from launcher.workflow.quote.price import price_request

    request = plan_file.loads(
        "slipway: 1\nname: job\nworkload: {train: {model: llama-3.1-8b, tokens_b: 5}}\n"
        "target: {instance_type: p5.48xlarge, nodes: 2, region: us-east-1}\npurchase: {option: spot}\n"
    )
    highs = []
    for band in range(5):
        catalog = with_band(tmp_path / str(band), band)
        highs.append(price_request(Path("plan.yaml"), request, catalog, NOW, PriceOptions()).quote(1).usd.high)
    assert highs == sorted(highs)


def test_the_high_hazard_is_in_the_high_estimate(priced):
    plan = {"workload": {"train": {"model": "llama-3.1-8b", "hours": None, "tokens_b": 5}}, **SPOT}
    known = priced(plan)
    most = hazard(1, CATALOG.interruption_band("p5.48xlarge", "us-east-1"), None).high
    fixed = priced({**plan, "purchase": {"option": "spot", "interruptions_per_node_hour": most}})
    assert known.quote(1).hours.high >= fixed.quote(1).hours.high * 0.999


def test_how_far_prices_move_is_what_the_shipped_ones_did():
    """Of the pairs with traded prices on two days far apart: how many are inside the range of the older day's zones."""
    days = defaultdict(lambda: defaultdict(list))
    for row in tables.read_cells("prices/spot.csv"):
        whole = CATALOG.on_demand(row["instance_type"], row["region"])
        traded = not isinstance(whole, Price) or 0.11 < float(row["usd"] or 0) / float(whole.usd) < 0.97
        if row["usd"] and traded and row["as_of"] <= "2026-10-04":
            days[row["instance_type"], row["region"]][date.fromisoformat(row["as_of"])].append(float(row["usd"]))
    risen, fallen = [], []
    for usd_by_day in days.values():
        for before, after in pairwise(sorted(usd_by_day)):
            if (apart := (after - before).days) >= 30:
                later = median_high(usd_by_day[after])
                risen.append(log(later / max(usd_by_day[before])) / sqrt(apart))
                fallen.append(log(min(usd_by_day[before]) / later) / sqrt(apart))
    inside = [max(pair) <= MOVES for pair in zip(risen, fallen, strict=True)]
    assert len(inside) >= 40
    assert 0.75 <= sum(inside) / len(inside) <= 0.85
    assert sum(rise <= MOVES for rise in risen) / len(risen) == pytest.approx(0.9, abs=0.04)
