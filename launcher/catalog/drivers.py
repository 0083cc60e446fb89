"""The NVIDIA drivers of targets' default images, and the least driver of chips that need a newer one than usual."""

from collections.abc import Mapping
from functools import cache

from launcher.catalog.tables import read_cells
from launcher.model.record import record

DRIVERS = "drivers.csv"


@record
class Driver:
    """A driver's major version, None if no source names it, with a note."""

    version: int | None
    note: str


@cache
def load_drivers() -> Mapping[str, Driver]:
    """By chip the least driver, by target the driver of its default image."""
    return {
        row["key"]: Driver(version=int(row["driver"]) if row["driver"] else None, note=row["note"])
        for row in read_cells(DRIVERS)
    }
