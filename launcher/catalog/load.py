"""Loads the catalog's data."""

from datetime import date
from pathlib import Path

from launcher.catalog.catalog import Catalog
from launcher.catalog.store import Store

__all__ = ["Catalog", "load"]


def load(*, prices_as_of: date | None = None, overlay: Path | None = None, today: date | None = None) -> Catalog:
    """The shipped catalog, with the user's price cache beside it.

    Nothing is read yet: each file is read when the first of its rows is looked up, and kept.

    Args:
        prices_as_of: what was known on that day: newer rows do not exist, and older history wins. None: all rows.
        overlay: a folder of price files in the snapshot's format (`prices refresh` writes it). Its rows are used beside
            the shipped ones, so the newest wins; a missing folder or file adds nothing.
        today: the UTC day after which no row of `overlay` can have been read; None: that is not looked at.

    Raises:
        UnreadableInputError: on the first look-up in a file of `overlay` that is not of the format, or has a row after
            `today`.
    """
    return Catalog(Store(overlay, today), prices_as_of=prices_as_of)
