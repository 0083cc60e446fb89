"""Loads the catalog's data."""

from datetime import date
from pathlib import Path

from launcher.catalog.catalog import Catalog
from launcher.catalog.store import Store

__all__ = ["Catalog", "load"]


def load(*, prices_as_of: date | None = None, overlay: Path | None = None, today: date | None = None) -> Catalog:
    """The shipped catalog, combined with the user's price cache.

    Nothing is read yet: each file is read and cached when its first row is looked up.

    Args:
        prices_as_of: use the prices known on that day: newer rows are ignored, and older ones win. None: all rows.
        overlay: a folder of price files in the snapshot's format (`prices refresh` writes it). Its rows are added to
            the shipped ones, so the newest wins; a missing folder or file adds nothing.
        today: the UTC day after which no row of `overlay` can have been read; None: not checked.

    Raises:
        UnreadableInputError: on the first look-up in an `overlay` file of another format, or with a row after
            `today`.
    """
    return Catalog(Store(overlay, today), prices_as_of=prices_as_of)
