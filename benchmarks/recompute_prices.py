"""Reads the shipped price files with the standard library alone: the valid price rows, and past spot prices."""

import csv
import json
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

DATA = Path(__file__).resolve().parents[1] / "launcher" / "catalog" / "data"
FREE = "free"


def table(name: str) -> list[dict[str, str]]:
    """The rows of a file."""
    with (DATA / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def newest(rows: Iterator[dict[str, str]] | list[dict[str, str]], column: str = "usd") -> dict[str, str]:
    """The valid price row: the newest listed or derived row; of one day, the listed row first, then the most expensive.

    Raises:
        LookupError: no row is listed or derived.
    """
    known = [row for row in rows if row[column] and row["basis"] in ("listed", "derived")]
    if not known:
        message = "no row may be the price"
        raise LookupError(message)
    return max(known, key=lambda row: (row["as_of"], row["basis"] == "listed", float(row[column])))


def on_demand(instance_type: str, region: str) -> float:
    """Dollars per instance-hour on demand."""
    rows = (
        row
        for row in table("prices/on_demand.csv")
        if (row["instance_type"], row["region"], row["zone"]) == (instance_type, region, "")
    )
    return float(newest(rows)["usd"])


def zoned(name: str, instance_type: str, region: str) -> float:
    """Dollars per instance-hour in a Capacity Block or a training plan."""
    rows = [
        row for row in table(f"prices/{name}.csv") if (row["instance_type"], row["region"]) == (instance_type, region)
    ]
    return float(newest([row for row in rows if not row["zone"]] or rows)["usd"])


def reserved(instance_type: str, region: str, offering_class: str, years: int) -> float:
    """Dollars per instance-hour without upfront payment; a Compute Savings Plan costs as much as a convertible one."""
    key = (instance_type, region, offering_class, str(years))
    rows = (
        row
        for row in table("prices/reserved.csv")
        if (row["instance_type"], row["region"], row["offering_class"], row["term_years"]) == key
    )
    return float(newest(rows, "no_upfront")["no_upfront"])


def sagemaker(instance_type: str, region: str, component: str) -> float:
    """Dollars per `ml.` instance-hour; all components except HyperPod's have the same price."""
    rows = [
        row
        for row in table("prices/sagemaker.csv")
        if (row["instance_type"], row["region"]) == (f"ml.{instance_type}", region)
    ]
    alike = [row for row in rows if (row["component"] == "cluster") is (component == "cluster")]
    return float(newest(alike)["usd"])


def item(name: str, region: str) -> float:
    """Dollars per unit of a bill item, beyond its free quantity."""
    rows = [row for row in table("prices/bill_items.csv") if row["item"] == name]
    rows = [row for row in rows if row["region"] == region] or [row for row in rows if row["region"] == "*"]
    paid = [row for row in rows if row["usd"] != FREE and row["basis"] in ("listed", "derived", "memory")]
    if not paid:
        return 0.0
    day = max(row["as_of"] for row in paid)
    return float(min((row for row in paid if row["as_of"] == day), key=lambda row: float(row["tier_from"] or 0))["usd"])


def spot_newest(instance_type: str, region: str) -> list[tuple[float, date, str]]:
    """The newest spot price of each zone, with its date and its own zone, "" for a price of the region.

    A row with the on-demand price, or a tenth of it, is no market price; a newer price of the region replaces a zone's
    price.
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
        if 0.101 < float(row["usd"]) / most < 0.99:
            found.append((float(row["usd"]), date.fromisoformat(row["as_of"]), row["zone"]))
    return found


def spot_process() -> dict[str, Any]:
    """The fit of how spot prices move."""
    with (DATA / "spot_process.json").open(encoding="utf-8") as file:
        found: dict[str, Any] = json.load(file)
    return found


def bedrock(model_id: str) -> tuple[float, float]:
    """Dollars per million input and output tokens of a model id, with or without an inference profile."""
    profile, _, bare = model_id.partition(".")
    known = profile in ("us", "eu", "apac", "au", "jp", "global")
    key = (bare, profile) if known else (model_id, "")
    rows = [
        row for row in table("serving/bedrock.csv") if (row["model_id"], row["profile"], row["region"]) == (*key, "")
    ]
    row = newest(rows, "input_usd")
    return float(row["input_usd"]), float(row["output_usd"])
