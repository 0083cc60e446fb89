"""Spot prices change: a total has a price range that widens with age, and the gate uses its high end."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from math import log
from pathlib import Path

import pytest

from benchmarks import fit_spot
from launcher.catalog import tables
from launcher.catalog.load import load
from launcher.catalog.spot_process import load_spot_process
from launcher.model.enums import PurchaseOption, TargetKind
from launcher.model.money import Price
from launcher.model.plan import Place
from launcher.pricing.hazard import hazard
from launcher.pricing.offers import offer
from launcher.pricing.spot_prices import SpotForecast, forecast_at, random_price, spot_price
from launcher.records.quote_document import candidate
from tests.plans import NOW, request_of

CATALOG = load()
TODAY = NOW.date()
SPOT = {"purchase": {"option": "spot"}}
PLAN = {
    "slipway": 1,
    "name": "job",
    "workload": {"train": {"model": "llama-3.1-8b", "hours": 10}},
    "target": {"instance_type": "p5.48xlarge", "nodes": 1, "region": "us-east-1"},
    "purchase": {"option": "spot"},
}
P5EN = Place(
    target=TargetKind.PARALLELCLUSTER,
    instance_type="p5en.48xlarge",
    nodes=1,
    region="us-east-2",
    az_id="use2-az3",
    option=PurchaseOption.SPOT,
)


def forecast(usd: float, days: int = 0, **fields: object) -> SpotForecast:
    known = {"alike": 1.0, "long_run": 20.0, "most": 60.0, **fields}
    return SpotForecast(usd=usd, days=days, **known)


def ends(found: SpotForecast, hours: float = 10.0) -> tuple[float, float]:
    random = found.random(found.middle, hours)
    return random.at(0.1), random.at(0.9)


def test_a_price_of_today_hardly_moves_in_ten_hours():
    low, high = ends(forecast(12.0))
    assert forecast(12.0).middle == 12.0
    assert 0.95 < low / 12.0 < 0.98
    assert 1.02 < high / 12.0 < 1.05


@pytest.mark.parametrize("usd", [8.0, 12.0, 45.0])
def test_an_old_price_returns_to_the_long_run_share(usd):
    middles = [forecast(usd, days).middle for days in (0, 50, 100, 10_000)]
    distances = [abs(log(middle / 20.0)) for middle in middles]
    assert distances == sorted(distances, reverse=True)
    assert middles[2] == pytest.approx(20.0 * (usd / 20.0) ** 0.5, rel=1e-3)
    assert middles[3] == pytest.approx(20.0, rel=1e-3)


def test_a_row_without_a_zone_is_wider_and_nearer_the_long_run():
    zone, region = forecast(8.0, 2), forecast(8.0, 2, alike=0.5)
    assert zone.middle < region.middle < 20.0
    assert ends(region)[1] / region.middle > ends(zone)[1] / zone.middle


def test_spot_forecast_stays_between_a_tenth_of_on_demand_and_on_demand():
    for usd in (6.5, 58.0):
        low, high = ends(forecast(usd, 10_000, long_run=usd), 5_000)
        assert 6.0 <= low < high <= 60.0


def test_only_the_newest_row_prices(tmp_path):
    """An older row of the zone changes neither the middle nor the ends."""
    before, after = (CATALOG, with_old_row(tmp_path))
    quotes = [spot_of(catalog) for catalog in (before, after)]
    assert quotes[0].usd == quotes[1].usd


def with_old_row(folder: Path):
    path = folder / tables.SPOT.path
    path.parent.mkdir(parents=True)
    rows = [("p5.48xlarge", "us-east-1", "use1-az6", "50.1", "2025-01-01", "listed", "s", "")]
    path.write_text(tables.encode(tables.SPOT, rows), encoding="utf-8")
    return load(overlay=folder)


def spot_of(catalog):
    place = replace(P5EN, instance_type="p5.48xlarge", region="us-east-1", az_id="use1-az6")
    found = forecast_at(place, catalog, TODAY)
    price = offer(place, request_of(PLAN), catalog, TODAY).price
    assert isinstance(price, Price)
    assert found
    return spot_price(place, price, random_price(place, float(price.usd), found, 10.0), found)


@pytest.mark.parametrize("days, more", [(0, 3), (2, 40), (114, 60)])
def test_an_older_price_is_never_narrower(days, more):
    newer, older = (ends(forecast(20.0, age)) for age in (days, days + more))
    assert older[0] <= newer[0] < newer[1] <= older[1]


def test_a_longer_job_is_never_narrower():
    widths = [high / low for low, high in (ends(forecast(20.0, 2), hours) for hours in (1, 10, 100, 1_000))]
    assert widths == sorted(widths)


@pytest.mark.parametrize("hours", fit_spot.HOURS)
def test_the_shipped_fit_holds_later_prices(hours):
    """Weeks and months later, about four prices in five lie inside the range, and nine in ten under its end."""
    found = fit_spot.pairs(load_spot_process())
    inside, under = fit_spot.covered(found, hours)
    assert len(found) >= 500
    assert 0.74 <= inside <= 0.9
    assert 0.86 <= under <= 0.97
    for days in {days for days, _, _ in found}:
        of_age = [pair for pair in found if pair[0] == days]
        assert len(of_age) < fit_spot.FEWEST or fit_spot.covered(of_age, hours)[0] >= 0.68


def test_accuracy_page_has_the_coverage_of_the_shipped_fit():
    page = fit_spot.REPORT.read_text(encoding="utf-8")
    assert fit_spot.report(load_spot_process(), fit_spot.traded_logs()).strip() in page


def test_history_of_a_steady_price_holds_and_that_of_a_jumping_one_does_not():
    start = datetime(2026, 1, 1, tzinfo=UTC)
    hours = [start + timedelta(hours=index) for index in range(24 * 20)]
    steady = (10.4, [(moment, 4.0) for moment in hours])
    swinging = (10.4, [(moment, 4.0 * (1.1 if index // 12 % 2 else 1.0)) for index, moment in enumerate(hours)])
    assert fit_spot.moving([steady, swinging]) == [swinging]
    assert {row["inside"] for row in fit_spot.history_counts([steady], load_spot_process())} == {1.0}
    first = fit_spot.history_counts([swinging], load_spot_process())[0]
    assert (first["days"], first["hours"]) == (0, 10)
    assert first["inside"] < 0.6
    assert first["moved"] > 0.02


def test_history_without_a_traded_market_does_not_count():
    start = datetime(2026, 1, 1, tzinfo=UTC)
    known = [(start + timedelta(hours=index), 10.4) for index in range(24 * 20)]
    assert fit_spot.history_counts([(10.4, known)], load_spot_process()) == []


def test_overlapping_histories_of_accelerators_are_joined_by_zone(tmp_path):
    """As `aws ec2 describe-spot-price-history` writes them; a zone known for an hour does not count."""
    for number, days in enumerate((range(8), range(6, 14))):
        rows = [
            {
                "AvailabilityZone": zone,
                "InstanceType": "p3.16xlarge",
                "ProductDescription": "Linux/UNIX",
                "SpotPrice": f"{7.344 + day / 10:.6f}",
                "Timestamp": f"2020-01-{day + 1:02}T06:39:10.000Z",
            }
            for day in days
            for zone in ("us-west-2a", *(("us-west-2b",) if day == 0 else ()))
        ]
        path = tmp_path / f"us-west-2/{number}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({"NextToken": "", "SpotPriceHistory": rows}))
    ((most, known),) = fit_spot.read_accelerators(tmp_path)
    assert most == pytest.approx(24.48)
    assert [round(usd, 3) for _, usd in known] == [round(7.344 + day / 10, 3) for day in range(14)]


def test_range_of_todays_price_for_ten_hours_holds_in_the_published_histories():
    known = json.loads(fit_spot.HISTORY.read_text(encoding="utf-8"))
    for counts in (known["counts"], known["accelerators"]["counts"]):
        first = counts[0]
        assert (first["days"], first["hours"]) == (0, 10)
        assert first["inside"] >= 0.8
        assert 0.02 <= log(ends(forecast(20.0, 0))[1] / 20.0) <= 0.03


def test_history_of_two_zones_is_joined_to_a_series_for_each():
    start = datetime(2026, 1, 1, tzinfo=UTC)
    moments = [start + timedelta(hours=7 * index) for index in range(60)]
    records = [(moment + timedelta(hours=zone), "us-east-1", 4.0 + zone) for moment in moments for zone in (0, 3)]
    assert [sorted({usd for _, usd in series}) for _, series in fit_spot.series_of(records)] == [[4.0], [7.0]]


def test_the_shipped_fit_is_the_one_of_the_shipped_rows():
    fitted = fit_spot.fit(fit_spot.traded_logs())
    assert replace(fitted, fitted_on=load_spot_process().fitted_on) == load_spot_process()


def test_a_users_own_price_has_no_range(priced):
    quoted = priced({"purchase": {"option": "spot", "price_overrides": {"p5.48xlarge/spot": "18"}}}).quote(1)
    assert quoted.price_range.low == quoted.price_range.high == Decimal(18)


def test_document_has_the_price_range_and_the_high_total_includes_the_range(priced):
    quoted = priced(SPOT).quote(1)
    json_candidate = candidate(quoted, 1, CATALOG.instance_types)
    assert Decimal(json_candidate["price"]["range"]["high"]) == quoted.price_range.high > quoted.price.usd
    assert Decimal(json_candidate["price"]["range"]["low"]) == quoted.price_range.low < quoted.price.usd
    assert quoted.usd.high > quoted.price_range.high * Decimal(repr(quoted.hours.mid))
    assert "range" not in candidate(priced().quote(1), 1, CATALOG.instance_types)["price"]


def test_the_gate_sees_the_high_end(priced):
    quoted = priced(SPOT, any_age=True).quote(1)
    between = (quoted.price.usd * Decimal(repr(quoted.hours.high + 1)) + quoted.usd.high) / 2
    assert priced({**SPOT, "budget": {"max_usd": float(between)}}, any_age=True).quote(1).gate.exit_code == 3


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
