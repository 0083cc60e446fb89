"""The shipped price files, read with the standard library alone: which row is a price, and what spot has cost."""

import csv
from collections.abc import Iterator
from datetime import date
from pathlib import Path

DATA = Path(__file__).resolve().parents[1] / "launcher" / "catalog" / "data"
FREE = "free"


def table(name: str) -> list[dict[str, str]]:
    """The rows of a file."""
    with (DATA / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def newest(rows: Iterator[dict[str, str]] | list[dict[str, str]], column: str = "usd") -> dict[str, str]:
    """The row that is the price: of those listed or derived the newest, the listed one of a day, then the dearer.

    Raises:
        LookupError: there is none.
    """
    known = [row for row in rows if row[column] and row["basis"] in ("listed", "derived")]
    if not known:
        message = "no row may be the price"
        raise LookupError(message)
    return max(known, key=lambda row: (row["as_of"], row["basis"] == "listed", float(row[column])))


def on_demand(instance_type: str, region: str) -> float:
    """Dollars of an instance-hour on demand."""
    rows = (
        row
        for row in table("prices/on_demand.csv")
        if (row["instance_type"], row["region"], row["zone"]) == (instance_type, region, "")
    )
    return float(newest(rows)["usd"])


def zoned(name: str, instance_type: str, region: str) -> float:
    """Dollars of an instance-hour in a Capacity Block or a training plan."""
    rows = [
        row for row in table(f"prices/{name}.csv") if (row["instance_type"], row["region"]) == (instance_type, region)
    ]
    return float(newest([row for row in rows if not row["zone"]] or rows)["usd"])


def reserved(instance_type: str, region: str, offering_class: str, years: int) -> float:
    """Dollars of an instance-hour without upfront payment; a Compute Savings Plan costs what a convertible does."""
    key = (instance_type, region, offering_class, str(years))
    rows = (
        row
        for row in table("prices/reserved.csv")
        if (row["instance_type"], row["region"], row["offering_class"], row["term_years"]) == key
    )
    return float(newest(rows, "no_upfront")["no_upfront"])


def sagemaker(instance_type: str, region: str, component: str) -> float:
    """Dollars of an `ml.` instance-hour; all components but HyperPod's are billed alike."""
    rows = [
        row
        for row in table("prices/sagemaker.csv")
        if (row["instance_type"], row["region"]) == (f"ml.{instance_type}", region)
    ]
    alike = [row for row in rows if (row["component"] == "cluster") is (component == "cluster")]
    return float(newest(alike)["usd"])


def item(name: str, region: str) -> float:
    """Dollars of a unit of a bill item, past what is free of it."""
    rows = [row for row in table("prices/bill_items.csv") if row["item"] == name]
    rows = [row for row in rows if row["region"] == region] or [row for row in rows if row["region"] == "*"]
    paid = [row for row in rows if row["usd"] != FREE and row["basis"] in ("listed", "derived", "memory")]
    if not paid:
        return 0.0
    day = max(row["as_of"] for row in paid)
    return float(min((row for row in paid if row["as_of"] == day), key=lambda row: float(row["tier_from"] or 0))["usd"])


def spot_seen(instance_type: str, region: str) -> list[tuple[float, date]]:
    """What spot costs in a region by its zones, the newest row of each, and the ends of the range it had.

    A row that costs what on demand does, or a tenth of it, is no market; a newer price of the region takes the place of
    a zone's.
    """
    most = on_demand(instance_type, region)
    by_zone: dict[str, list[dict[str, str]]] = {}
    for row in table("prices/spot.csv"):
        if (row["instance_type"], row["region"]) == (instance_type, region):
            by_zone.setdefault(row["zone"], []).append(row)
    found = []
    for rows in by_zone.values():
        try:
            row = newest([*rows, *by_zone.get("", [])])
        except LookupError:
            continue
        share = float(row["usd"]) / most
        if 0.101 < share < 0.99:
            found.append((float(row["usd"]), date.fromisoformat(row["as_of"])))
    ranges = [
        row
        for row in table("prices/spot_ranges.csv")
        if (row["instance_type"], row["region"]) == (instance_type, region)
    ]
    if ranges:
        row = newest(ranges, "usd_avg")
        ends = (row[each] for each in ("usd_min", "usd_avg", "usd_max") if row[each])
        found += [(float(end), date.fromisoformat(row["as_of"])) for end in ends]
    return found


def band_percent(instance_type: str, region: str) -> float:
    """The upper end of the Spot Advisor's band, percent of instances a month; its highest is taken as 25."""
    rows = [
        row
        for row in table("prices/interruptions.csv")
        if (row["instance_type"], row["region"]) == (instance_type, region)
    ]
    band = int(max(rows, key=lambda row: row["as_of"])["band"]) if rows else 4
    return (5.0, 10.0, 15.0, 20.0, 25.0)[band]


def bedrock(model_id: str) -> tuple[float, float]:
    """Dollars per million tokens in and out of a model id with its profile, or without."""
    profile, _, bare = model_id.partition(".")
    known = profile in ("us", "eu", "apac", "au", "jp", "global")
    key = (bare, profile) if known else (model_id, "")
    rows = [
        row for row in table("serving/bedrock.csv") if (row["model_id"], row["profile"], row["region"]) == (*key, "")
    ]
    row = newest(rows, "input_usd")
    return float(row["input_usd"]), float(row["output_usd"])
