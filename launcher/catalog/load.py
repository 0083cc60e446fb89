"""Loads the catalog's data."""

from datetime import date
from functools import lru_cache
from pathlib import Path

from launcher.catalog import tables
from launcher.catalog.catalog import Catalog
from launcher.catalog.store import Store

__all__ = ["Catalog", "load"]

MAX_DAYS = 4
"""Days whose prices a process keeps: a comparison looks at two."""


def load(*, prices_as_of: date | None = None, overlay: Path | None = None, today: date | None = None) -> Catalog:
    """The shipped catalog, combined with the user's price cache.

    Nothing is read yet: each file is read and cached when its first row is looked up. Without rows of `overlay` the
    catalog is the same for all callers of a process, because the shipped files do not change.

    Args:
        prices_as_of: use the prices known on that day: newer rows are ignored, and older ones win. None: all rows.
        overlay: a folder of price files in the snapshot's format (`prices refresh` writes it). Its rows are added to
            the shipped ones, so the newest wins; a missing folder or file adds nothing.
        today: the UTC day after which no row of `overlay` can have been read; None: not checked.

    Raises:
        UnreadableInputError: on the first look-up in an `overlay` file of another format, or with a row after
            `today`.
    """
    if overlay is None or not overlay.exists():
        return _load_shipped(tables.SNAPSHOT, prices_as_of)
    return Catalog(Store(overlay, today), prices_as_of=prices_as_of)


@lru_cache(maxsize=MAX_DAYS)
def _load_shipped(folder: Path, prices_as_of: date | None) -> Catalog:
    return Catalog(_store(folder), prices_as_of=prices_as_of)


@lru_cache(maxsize=1)
def _store(folder: Path) -> Store:  # noqa: ARG001 - what the store reads is there
    return Store()
