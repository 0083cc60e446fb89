"""Prices that are imported into the cache: from a snapshot file, or from a plugin."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from launcher.catalog.fetched_prices import FetchedPrice
from launcher.catalog.load import Catalog
from launcher.catalog.price_moves import KnownPrice, jumps, known_prices
from launcher.catalog.selector import Key
from launcher.model.errors import UnreadableInputError
from launcher.records.cache_folder import cache_folder
from launcher.records.price_cache import PriceCache
from launcher.records.price_snapshot import unpack
from launcher.records.refresh_report import RefreshReport
from launcher.workflow.quote.plugins import names, write_prices
from launcher.workflow.quote.prices import known_catalog
from launcher.workflow.quote.refresh import FILE_KINDS


def take(source: Path, expected: str | None, environment: Mapping[str, str], now: datetime) -> RefreshReport:
    """Import prices from a snapshot file, or from the plugin of this name.

    Raises:
        SlipwayError: as take_snapshot and take_plugin.
    """
    if str(source) in names() and not source.exists():
        return take_plugin(str(source), environment, now)
    return take_snapshot(source, expected, environment, now)


def take_snapshot(path: Path, expected: str | None, environment: Mapping[str, str], now: datetime) -> RefreshReport:
    """Import the prices of a snapshot file into the cache; `expected` is its SHA-256, None: that of the `.sha256` file.

    Raises:
        UnreadableInputError: the digest differs, or the file is no snapshot.
    """
    with TemporaryDirectory(prefix="slipway-prices-") as unpacked:
        digest = unpack(path, expected, Path(unpacked))
        return replace(_take_tables(Path(unpacked), f"snapshot {path}", environment, now), snapshot=digest)


def take_plugin(name: str, environment: Mapping[str, str], now: datetime) -> RefreshReport:
    """Import the prices of a plugin into the cache.

    Raises:
        ImpossibleError: the plugin has no prices, or fails.
        UnreadableInputError: a table that it wrote is damaged.
    """
    with TemporaryDirectory(prefix="slipway-prices-") as written:
        write_prices(name, Path(written))
        return replace(_take_tables(Path(written), f"plugin {name}", environment, now), plugin=name)


def _take_tables(folder: Path, source: str, environment: Mapping[str, str], now: datetime) -> RefreshReport:
    """Take the tables of a folder into the cache."""
    cache = PriceCache(folder=cache_folder(environment))
    before = _every(known_catalog(environment, now))
    try:
        rows = cache.take(folder, now.date())
    except UnreadableInputError as problem:
        if str(folder) not in problem.message:
            raise
        message = problem.message.replace(f"price cache: {folder}/", "")
        hint = "make snapshot writes one; its tables have the columns of the catalog's"
        raise UnreadableInputError(f"{source}: {message}", hint=hint) from problem
    after = (FetchedPrice(key=key, usd=price.usd) for key, price in _every(known_catalog(environment, now)).items())
    moved = jumps(before, after)
    return RefreshReport(
        cache=cache.folder,
        asked=0,
        answered=0,
        resumed=0,
        prices=rows,
        jumped=tuple(sorted(moved, key=lambda move: move.key)),
        vanished=(),
        refused=(),
        failures=(),
        skipped_regions=(),
    )


def _every(catalog: Catalog) -> dict[Key, KnownPrice]:
    names = [*catalog.instance_types, *(f"ml.{name}" for name in catalog.instance_types)]
    kinds = sorted(
        {kind for by_region in FILE_KINDS.values() for file_kinds in by_region.values() for kind in file_kinds}
    )
    return {
        key: price for kind in kinds for key, price in known_prices(catalog.store, kind, names, catalog.regions).items()
    }
