"""The version of Slipway with the dates of its prices: `slipway version`."""

import platform
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed
from pathlib import Path
from typing import Literal

from launcher.answers.table import Column, render
from launcher.catalog.tables import PRICE_TABLES, SOURCES, Table, read, read_checked
from launcher.model.distribution import DISTRIBUTION
from launcher.records.codec import Json, as_json
from launcher.records.document import json_object


@json_object
class PriceTable:
    """One table of prices with the dates of its oldest and newest row; `refreshed`: it is in the user's cache."""

    name: str
    refreshed: bool
    rows: int
    oldest: date
    newest: date


@json_object
class VersionDocument:
    """The installed version; `version` is null in a checkout that is not installed."""

    schema: Literal["slipway.version/1"] = "slipway.version/1"
    version: str | None
    python: str
    prices: tuple[PriceTable, ...]
    plugins: tuple[str, ...]


def facts(cache: Path, plugins: tuple[str, ...]) -> VersionDocument:
    """The version, the tables of the package and of a price cache, and the names of plugins.

    Raises:
        UnreadableInputError: a file of the cache is damaged.
    """
    try:
        number = installed(DISTRIBUTION)
    except PackageNotFoundError:
        number = None
    return VersionDocument(
        version=number, python=platform.python_version(), prices=tuple(_tables(cache)), plugins=plugins
    )


def _tables(cache: Path) -> Iterator[PriceTable]:
    for table in PRICE_TABLES:
        if table == SOURCES:
            continue
        yield from _table(table, read(table), refreshed=False)
        if (cache / table.path).is_file():
            yield from _table(table, read_checked(table, cache), refreshed=True)


def _table(table: Table, rows: Iterable[Sequence[str]], *, refreshed: bool) -> Iterator[PriceTable]:
    column = table.columns.index("as_of")
    days = sorted(row[column] for row in rows)
    if days:
        yield PriceTable(
            name=Path(table.path).stem,
            refreshed=refreshed,
            rows=len(days),
            oldest=date.fromisoformat(days[0]),
            newest=date.fromisoformat(days[-1]),
        )


def document(found: VersionDocument) -> Json:
    """slipway.version/1."""
    return as_json(found)


def page(found: VersionDocument, width: int) -> list[str]:
    """The version as text."""
    columns: list[Column[PriceTable]] = [
        Column("prices", lambda table: table.name.replace("_", " ") + (" (refreshed)" if table.refreshed else "")),
        Column("rows", lambda table: f"{table.rows:,}", "right"),
        Column("oldest", lambda table: table.oldest.isoformat()),
        Column("newest", lambda table: table.newest.isoformat()),
    ]
    lines = [f"slipway {found.version or '(not installed)'}, Python {found.python}", ""]
    lines += render(columns, found.prices, width)
    return [*lines, f"  plugins: {', '.join(found.plugins)}"] if found.plugins else lines
