"""Fits how spot prices move to the shipped rows, and compares forecasts with what the prices did afterwards.

    python -m benchmarks.fit_spot            writes launcher/catalog/data/spot_process.json and docs/accuracy.md
    python -m benchmarks.fit_spot --keep     writes docs/accuracy.md alone, with the shipped fit
    python -m benchmarks.fit_spot --keep --history spot_prices.csv      reads the history of t3.micro again
    python -m benchmarks.fit_spot --keep --accelerators logs/aws/cost   reads the histories of p2 and p3 again

A row counts if its zone has a traded market: between 11 % and 97 % of on demand. The spread is that of the logarithm of
a price as a share of on demand, within each type; the long-run share of a type is its mean, drawn towards that of all
types by PRIOR_ROWS rows. The correlation between two zones of a region is that of the rows of one day. The half-life
is a judgement between two findings: prices of one region 228 days apart have kept nothing of their distance (the slope
in the report), and a public history of one small type moves by a quarter less from day to day than the half-life says.

The history is a file of `DescribeSpotPriceHistory` with the columns Timestamp, Region and SpotPrice. It names no zone:
a record continues the series of its region with the nearest price of the last 26 hours, if that differs by at most
12 %. The histories of p2 and p3 are answers of `DescribeSpotPriceHistory`, which name the zone. spot_history.json has
the counts of the forecasts of both.
"""

import argparse
import json
import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from csv import DictReader
from datetime import date, datetime, timedelta
from pathlib import Path
from statistics import fmean, median, pstdev
from typing import Any, TypeAlias

from benchmarks.report_sections import replace_section
from launcher.catalog import tables
from launcher.catalog.load import load
from launcher.catalog.spot_process import SPOT_PROCESS, SpotProcess, load_spot_process
from launcher.model.money import Price
from launcher.pricing.joint import HIGH, LOW
from launcher.pricing.spot_prices import SpotForecast

REPORT = Path(__file__).parent.parent / "docs" / "accuracy.md"
SECTION = "spot"
HALF_LIFE_DAYS = 100.0
PRIOR_ROWS = 3.0
TRADED = (0.11, 0.97)
HEADS = ("c", "m")
"""Families of head nodes: they have no market for accelerators."""
APART_DAYS = 20
FEWEST = 10
"""Pairs of one age that are listed."""
HOURS = (10, 100)
HISTORY = Path(__file__).parent / "spot_history.json"
HISTORY_AGES = (0, 7, 30, 60)
"""Days; the history is 89 days long."""
ON_DEMAND = {"us-east-1": 10.4, "us-west-2": 10.4, "eu-west-1": 11.4}
"""A thousand t3.micro, dollars an hour: forecasts are rounded to a hundredth of a cent."""
NEAR, GAP = 0.12, timedelta(hours=26)
_IN_US = ("us-east-1", "us-east-2", "us-west-2")
ON_DEMAND_A_GPU = {
    "p2": dict.fromkeys(_IN_US, 0.9) | {"eu-west-1": 0.972, "eu-central-1": 1.326},
    "p3": dict.fromkeys(_IN_US, 3.06) | {"eu-west-1": 3.305, "eu-west-2": 3.589, "eu-central-1": 3.823},
}
"""In 2020, dollars an hour; the histories agree: the highest price of each type is that of all its GPUs."""
GPUS = {"p2.xlarge": 1, "p2.8xlarge": 8, "p2.16xlarge": 16, "p3.2xlarge": 1, "p3.8xlarge": 4, "p3.16xlarge": 8}
MOVES = 1.01
"""The highest price of a series over its lowest above which the series counts as one that moves."""
EVERY = timedelta(hours=6)
LONGEST = timedelta(days=10)
"""Series of the history that are shorter do not count."""

Logs: TypeAlias = Mapping[tuple[str, str], Mapping[str, list[float]]]
Pair: TypeAlias = tuple[int, SpotForecast, float]
"""The days between two prices, the forecast from the earlier one, and the later one."""
Series: TypeAlias = list[tuple[datetime, float]]
Zone: TypeAlias = tuple[float, Series]
"""The price on demand in a zone, and its spot prices."""


def traded_logs() -> Logs:
    """Logarithms of the share of on demand, by type and region and by day."""
    catalog = load()
    logs: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in tables.read_cells("prices/spot.csv"):
        whole = catalog.on_demand(row["instance_type"], row["region"])
        if not row["usd"] or row["instance_type"].startswith(HEADS) or not isinstance(whole, Price):
            continue
        share = float(row["usd"]) / float(whole.usd)
        if TRADED[0] < share < TRADED[1]:
            logs[row["instance_type"], row["region"]][row["as_of"]].append(math.log(share))
    return logs


def fit(logs: Logs) -> SpotProcess:
    """The process of these rows."""
    by_type: dict[str, list[float]] = defaultdict(list)
    for (instance_type, _), days in logs.items():
        by_type[instance_type] += [log for of_day in days.values() for log in of_day]
    every = fmean(log for of_type in by_type.values() for log in of_type)
    within = [log - fmean(of_type) for of_type in by_type.values() for log in of_type]
    scale = pstdev(within)
    of_zones = [
        (log - fmean(of_day)) * math.sqrt(len(of_day) / (len(of_day) - 1))
        for days in logs.values()
        for of_day in days.values()
        if len(of_day) > 1
        for log in of_day
    ]
    shares = {
        name: math.exp((sum(of_type) + PRIOR_ROWS * every) / (len(of_type) + PRIOR_ROWS))
        for name, of_type in sorted(by_type.items())
    }
    return SpotProcess(
        half_life_days=HALF_LIFE_DAYS,
        scale=round(scale, 3),
        zones_alike=round(max(0.0, 1.0 - (pstdev(of_zones) / scale) ** 2), 2),
        share=round(math.exp(every), 3),
        shares={name: round(share, 3) for name, share in shares.items()},
        dollars={name: round(usd, 4) for name, usd in sorted(mean_dollars().items())},
        fitted_on=date.today().isoformat(),  # noqa: DTZ011 a note of the day, shown and never compared
    )


def mean_dollars() -> dict[str, float]:
    """The geometric mean of a type's prices in all regions, for a region where on demand is unknown."""
    logs: dict[str, list[float]] = defaultdict(list)
    for row in tables.read_cells("prices/spot.csv"):
        if row["usd"] and not row["instance_type"].startswith(HEADS):
            logs[row["instance_type"]].append(math.log(float(row["usd"])))
    return {name: math.exp(fmean(of_type)) for name, of_type in logs.items()}


def pairs(process: SpotProcess) -> list[Pair]:
    """Prices of a type and region on two days: the average or the median zone, and each zone of the later day."""
    catalog = load()
    earlier: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    later: dict[tuple[str, str], list[tuple[str, float]]] = defaultdict(list)
    for row in tables.read_cells("prices/spot.csv"):
        if row["usd"]:
            earlier[row["instance_type"], row["region"], row["as_of"]].append(float(row["usd"]))
            later[row["instance_type"], row["region"]].append((row["as_of"], float(row["usd"])))
    for row in tables.read_cells("prices/spot_ranges.csv"):
        if row["basis"] == "listed":
            earlier[row["instance_type"], row["region"], row["as_of"]] = [float(row["usd_avg"])]
    found = []
    for (name, region, first), prices in earlier.items():
        on_demand = catalog.on_demand(name, region)
        if name.startswith(HEADS) or not isinstance(on_demand, Price):
            continue
        most, usd = float(on_demand.usd), median(prices)
        for last, after in later[name, region]:
            days = (date.fromisoformat(last) - date.fromisoformat(first)).days
            if days >= APART_DAYS and all(TRADED[0] < price / most < TRADED[1] for price in (usd, after)):
                long_run = most * process.share_of(name)
                forecast = SpotForecast(usd=usd, days=days, alike=process.zones_alike, long_run=long_run, most=most)
                found.append((days, forecast, after))
    return found


def covered(found: Iterable[Pair], hours: float) -> tuple[float, float]:
    """Shares of later prices inside the 10 to 90 % range of a job of some hours, and at or under its high end."""
    inside, under = [], []
    for _, forecast, after in found:
        random = forecast.random(forecast.middle, hours)
        inside.append(random.at(LOW) <= after <= random.at(HIGH))
        under.append(after <= random.at(HIGH))
    return fmean(inside), fmean(under)


def slope(found: Iterable[Pair]) -> float:
    """The share of a region's distance from its type's long run that the later day still has."""
    distances = [
        (math.log(forecast.usd / (forecast.long_run or 1.0)), math.log(after / (forecast.long_run or 1.0)))
        for _, forecast, after in found
    ]
    first, last = (fmean(values) for values in zip(*distances, strict=True))
    return sum((x - first) * (y - last) for x, y in distances) / sum((x - first) ** 2 for x, _ in distances)


def series_of(records: Iterable[tuple[datetime, str, float]]) -> list[tuple[str, Series]]:
    """The records of each region as series of one zone."""
    every: list[tuple[str, Series]] = []
    for moment, region, usd in sorted(set(records)):
        near = [
            (abs(math.log(usd / known[-1][1])), known)
            for place, known in every
            if place == region and timedelta() < moment - known[-1][0] <= GAP
        ]
        apart, nearest = min(near, key=lambda each: each[0], default=(math.inf, []))
        if apart <= NEAR:
            nearest.append((moment, usd))
        else:
            every.append((region, [(moment, usd)]))
    return [(region, known) for region, known in every if known[-1][0] - known[0][0] >= LONGEST]


def mean_price(known: Series, start: datetime, hours: float) -> float:
    """The mean price of the hours from a moment on."""
    moments, end, total = [moment for moment, _ in known], start + timedelta(hours=hours), 0.0
    index, moment = bisect_right(moments, start) - 1, start
    while moment < end:
        until = min(moments[index + 1], end) if index + 1 < len(moments) else end
        total += known[index][1] * (until - moment).total_seconds()
        index, moment = index + 1, until
    return total / (hours * 3600)


def read_history(path: Path) -> list[tuple[datetime, str, float]]:
    """The records of a history, in dollars an hour of a thousand instances."""
    with path.open(encoding="utf-8") as lines:
        rows = [row for row in DictReader(lines) if row["Timestamp"]]
    return [(datetime.fromisoformat(row["Timestamp"]), row["Region"], 1000.0 * float(row["SpotPrice"])) for row in rows]


def read_accelerators(folder: Path) -> list[Zone]:
    """The zones of the histories of p2 and p3 in a folder; overlapping files are joined."""
    series: dict[tuple[str, str], dict[datetime, float]] = defaultdict(dict)
    for path in sorted(folder.rglob("*.json")):
        for row in json.loads(path.read_text(encoding="utf-8"))["SpotPriceHistory"]:
            moment = datetime.fromisoformat(row["Timestamp"])
            series[row["InstanceType"], row["AvailabilityZone"]][moment] = float(row["SpotPrice"])
    zones = []
    for (name, zone), prices in sorted(series.items()):
        most = ON_DEMAND_A_GPU[name.partition(".")[0]][zone.rstrip("abcdef")] * GPUS[name]
        known = sorted(prices.items())
        if known[-1][0] - known[0][0] >= LONGEST:
            zones.append((most, known))
    return zones


def history_counts(zones: Sequence[Zone], process: SpotProcess) -> list[dict[str, Any]]:
    """Forecasts every six hours, from a price of so many days before: how many hold, and how far the price moved."""
    counts = []
    for age in HISTORY_AGES:
        for hours in HOURS:
            found: list[Pair] = []
            for most, known in zones:
                start = known[0][0]
                while start + timedelta(days=age, hours=hours) <= known[-1][0]:
                    usd = known[bisect_right(known, (start, math.inf)) - 1][1]
                    forecast = SpotForecast(usd=usd, days=age, alike=1.0, long_run=most * process.share, most=most)
                    if TRADED[0] < usd / most < TRADED[1]:
                        found.append((age, forecast, mean_price(known, start + timedelta(days=age), hours)))
                    start += EVERY
            if found:
                inside, under = covered(found, hours)
                moved = math.sqrt(fmean(math.log(after / forecast.usd) ** 2 for _, forecast, after in found))
                counts.append(
                    {
                        "days": age,
                        "hours": hours,
                        "forecasts": len(found),
                        "inside": round(inside, 3),
                        "under": round(under, 3),
                        "moved": round(moved, 3),
                    }
                )
    return counts


def moving(zones: Sequence[Zone]) -> list[Zone]:
    """The zones whose price moves."""
    ends = [(zone, [usd for _, usd in zone[1]]) for zone in zones]
    return [zone for zone, prices in ends if max(prices) > MOVES * min(prices)]


def count_rows(counts: Sequence[Mapping[str, Any]]) -> list[str]:
    """The table of a history's counts."""
    row_form = "| {days} | {hours} | {forecasts} | {inside:.0%} | {under:.0%} | {moved:.3f} |"
    return [
        "",
        "| age in days | hours of the job | forecasts | inside the range | at or under the high end | RMS move, log |",
        "|---|---|---|---|---|---|",
        *(row_form.format(**row) for row in counts),
    ]


def report(process: SpotProcess, logs: Logs) -> str:
    """The section of docs/accuracy.md."""
    found = pairs(process)
    ages = defaultdict(list)
    for pair in found:
        ages[pair[0]].append(pair)
    inside, under = covered(found, HOURS[0])
    count = sum(len(of_day) for days in logs.values() for of_day in days.values())
    history = json.loads(HISTORY.read_text(encoding="utf-8"))
    lines = [
        "# Accuracy of spot prices",
        "",
        (
            f"Written by `python -m benchmarks.fit_spot` from the {count} shipped rows of accelerators with a traded"
            f" market, fitted on {process.fitted_on}."
        ),
        "",
        (
            "The price while a job runs is forecast from the zone's newest price. Its logarithm returns to the type's"
            f" long-run share of on demand ({process.share:.2f} over all types); half of the distance is left after"
            f" {process.half_life_days:.0f} days. The spread over months and zones is {process.scale:.2f} in"
            f" logarithms. Two zones of a region agree by {process.zones_alike:.2f}, which counts where a row names no"
            " zone."
        ),
        "",
        (
            f"Accelerators: {len(found)} pairs of an earlier price of a type and region (the median of its zones, or"
            f" the average of spot_ranges.csv) and a later price of a zone. {inside:.0%} of the later prices lie inside"
            f" the 10 to 90 % range of a job of {HOURS[0]} hours, and {under:.0%} at or under its high end. After more"
            f" than 200 days the later price has kept {slope(pair for pair in found if pair[0] > 200):.2f} of the"
            " earlier one's distance. The rows of 2025-12-21 come from an undated copy, taken between that day and"
            " 2026-05-18; their age of 21 days is the least possible one. Histories of newer accelerators by the hour"
            " were not read: the public ones are too large (orf/spot-prices: 1.1 GB; skypilot-org/skypilot-catalog), or"
            " have moved to hosts that were not reached (ericpauley/aws-spot-price-history, to Zenodo)."
        ),
        "",
        "| days between | hours of the job | pairs | inside the range | at or under the high end |",
        "|---|---|---|---|---|",
    ]
    lines += [
        "| {} | {} | {} | {:.0%} | {:.0%} |".format(days, hours, len(of_age), *covered(of_age, hours))
        for days, of_age in sorted(ages.items())
        if len(of_age) >= FEWEST
        for hours in HOURS
    ]
    lines += [
        "",
        (
            f"A history by the hour, of t3.micro in three regions ({history['source']}): forecasts every six hours from"
            " a price of this age, compared with the mean price while the job ran. Its records name no zone, so they"
            " were joined to series by their prices, which leaves out jumps of more than 12 %."
        ),
        *count_rows(history["counts"]),
        "",
        (
            f"Accelerators by the hour: p2 and p3, {history['accelerators']['source']}. The zones whose price moves by"
            f" more than {MOVES - 1:.0%} ({history['accelerators']['moving_zones']} of"
            f" {history['accelerators']['zones']}; the others lay still, most at 30 % of on demand)."
            " Prices moved less in those months than between the shipped rows: there the range is wider than it had"
            " to be. For a price of today and a job of ten hours it is 2 % to either side."
        ),
        *count_rows(history["accelerators"]["counts"]),
    ]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Fit, write the data file and the section, and print the section."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fit_spot")
    parser.add_argument("--keep", action="store_true", help="keep the shipped fit")
    parser.add_argument("--history", type=Path, help="a history of t3.micro: Timestamp,Region,SpotPrice")
    parser.add_argument("--accelerators", type=Path, help="a folder of DescribeSpotPriceHistory answers, p2 and p3")
    options = parser.parse_args(arguments)
    logs = traded_logs()
    process = load_spot_process() if options.keep else fit(logs)
    if not options.keep:
        document = {"made_by": "python -m benchmarks.fit_spot"} | {
            name: getattr(process, name) for name in process.__dataclass_fields__
        }
        SPOT_PROCESS.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    history = json.loads(HISTORY.read_text(encoding="utf-8"))
    if options.history:
        zones = [(ON_DEMAND[region], known) for region, known in series_of(read_history(options.history))]
        history["counts"] = history_counts(zones, process)
    if options.accelerators:
        zones = read_accelerators(options.accelerators)
        accelerators = history["accelerators"]
        accelerators["zones"], accelerators["moving_zones"] = len(zones), len(moving(zones))
        accelerators["counts"] = history_counts(moving(zones), process)
    if options.history or options.accelerators:
        HISTORY.write_text(json.dumps(history, indent=1) + "\n", encoding="utf-8")
    text = report(process, logs)
    replace_section(REPORT, SECTION, text)
    print(text)


if __name__ == "__main__":
    main()
