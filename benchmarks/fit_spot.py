"""Fits how spot prices move to the shipped rows, and holds the fit against what they did afterwards.

    python -m benchmarks.fit_spot            writes launcher/catalog/data/spot_process.json and docs/accuracy.md

A row counts if its zone has a traded market: between 11 % and 97 % of on demand. The spread is that of the logarithm of
a price as a share of on demand, within each type; the long-run share of a type is its mean, drawn towards that of all
types by PRIOR_ROWS rows. The correlation between two zones of a region is that of the rows of one day. The half-life
is a judgement between two findings: prices of one region 228 days apart have kept nothing of their distance (the slope
in the report), and a public history of one small type moves by a quarter less from day to day than the half-life says.
"""

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import date
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median, pstdev
from typing import TypeAlias

from benchmarks.report_sections import replace_section
from launcher.catalog import tables
from launcher.catalog.load import load
from launcher.catalog.spot_process import SPOT_PROCESS, SpotProcess
from launcher.model.money import Price

REPORT = Path(__file__).parent.parent / "docs" / "accuracy.md"
SECTION = "spot"
HALF_LIFE_DAYS = 100.0
PRIOR_ROWS = 3.0
TRADED = (0.11, 0.97)
HEADS = ("c", "m")
"""Families of head nodes: they have no market for accelerators."""
APART_DAYS = 30
Z_OF_THE_ENDS = 1.2815515655446004
HISTORY = (
    ("10 h", 10 / 24, 0.0210),
    ("1 day", 1.0, 0.0251),
    ("2 days", 2.0, 0.0364),
    ("4 days", 4.0, 0.0564),
    ("7 days", 7.0, 0.0827),
    ("14 days", 14.0, 0.1163),
    ("28 days", 28.0, 0.1151),
)
"""Root mean square of the change of log price of t3.micro in three regions, 2025-11-30 to 2026-02-27: 1,375 records of
`DescribeSpotPriceHistory` in maliksudais24/AWS-EC2-Spot-Price-Prediction (commit 9faee55, read 2026-11-28), joined to
series by zone where a record follows another of nearly its price within 26 hours. A tick is 2 % of its price."""

Logs: TypeAlias = Mapping[tuple[str, str], Mapping[str, list[float]]]


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


def pairs(logs: Logs) -> list[tuple[str, int, float, float]]:
    """Type, days apart, and the logs of a region's median zone on two days."""
    found = []
    for (name, _), days in logs.items():
        for before, after in pairwise(sorted(days)):
            apart = (date.fromisoformat(after) - date.fromisoformat(before)).days
            if apart >= APART_DAYS:
                found.append((name, apart, median(days[before]), median(days[after])))
    return found


def covered(found: Iterable[tuple[str, int, float, float]], process: SpotProcess) -> tuple[float, float]:
    """Shares of later prices inside the forecast's 10 to 90 % range of the earlier one, and at or under its high end.

    The earlier price is a region's median zone, the later one zone's: they agree by `zones_alike`.
    """
    inside, under = [], []
    for name, apart, before, after in found:
        long_run, kept = math.log(process.share_of(name)), process.zones_alike * process.remaining_share(apart)
        reach = Z_OF_THE_ENDS * process.scale * math.sqrt(1.0 - kept**2)
        error = after - long_run - kept * (before - long_run)
        inside.append(abs(error) <= reach)
        under.append(error <= reach)
    return fmean(inside), fmean(under)


def slope(found: Iterable[tuple[str, int, float, float]], process: SpotProcess) -> float:
    """The share of a region's distance from its type's long run that the later day still has."""
    distances = [
        (before - math.log(process.share_of(name)), after - math.log(process.share_of(name)))
        for name, _, before, after in found
    ]
    first, last = (fmean(values) for values in zip(*distances, strict=True))
    return sum((x - first) * (y - last) for x, y in distances) / sum((x - first) ** 2 for x, _ in distances)


def report(process: SpotProcess, logs: Logs) -> str:
    """The section of docs/accuracy.md."""
    found = pairs(logs)
    inside, under = covered(found, process)
    count = sum(len(of_day) for days in logs.values() for of_day in days.values())
    lines = [
        "# Accuracy of spot prices",
        "",
        (
            f"Written by `python -m benchmarks.fit_spot` from the {count} shipped rows of accelerators with a traded"
            f" market, on {process.fitted_on}."
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
            f"Of {len(found)} pairs of a type and region with prices on two days, {APART_DAYS} to 228 days apart,"
            f" {inside:.0%} of the later prices lie inside the 10 to 90 % range and {under:.0%} at or under its high"
            f" end. The later price has kept {slope(found, process):.2f} of the earlier one's distance."
        ),
        "",
        (
            "No public history of an accelerator's spot price by the hour was found in text form. A history of t3.micro"
            " (three regions, 2025-11-30 to 2026-02-27) moved as follows; accelerators are assumed to move more."
        ),
        "",
        "| time ahead | root mean square of the change | the forecast's |",
        "|---|---|---|",
    ]
    for text, days, moved in HISTORY:
        forecast = process.scale * math.sqrt(1.0 - process.remaining_share(days) ** 2)
        lines.append(f"| {text} | {moved:.3f} | {forecast:.3f} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Fit, write the data file and the section, and print the section."""
    logs = traded_logs()
    process = fit(logs)
    document = {"made_by": "python -m benchmarks.fit_spot"} | {
        name: getattr(process, name) for name in process.__dataclass_fields__
    }
    SPOT_PROCESS.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    text = report(process, logs)
    replace_section(REPORT, SECTION, text)
    print(text)


if __name__ == "__main__":
    main()
