"""The NVIDIA drivers of targets' default images, and the least driver of chips that need a newer one than usual."""

from collections.abc import Mapping
from functools import cache

from launcher.catalog.tables import read_cells

DRIVERS = "drivers.csv"


@cache
def load_drivers() -> Mapping[str, tuple[int | None, str]]:
    """By chip the least driver, by target the driver of its default image.

    Each is a major version, None if no source names it, with a note.
    """
    return {row["key"]: (int(row["driver"]) if row["driver"] else None, row["note"]) for row in read_cells(DRIVERS)}
