"""Rows of the catalog's price files, read on first use and indexed by their lookup keys."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar

from launcher.catalog import tables
from launcher.catalog.plausibility import mark_implausible
from launcher.catalog.tables import Table

Place: TypeAlias = tuple[str, str]
"""Instance type (or bill item) and region."""
AnyKey = TypeVar("AnyKey", bound=tuple[str, ...])
AnyRow = TypeVar("AnyRow", bound=tuple[str, ...])


class Row(NamedTuple):
    """One price as in its file: text, not yet a `Price`. An empty `usd` marks a row with the reason for no price."""

    zone: str
    usd: str
    as_of: str
    basis: str
    source: str
    note: str


class TermRow(NamedTuple):
    """The rates of one commitment, by payment option."""

    no_upfront: str
    partial_upfront: str
    all_upfront: str
    as_of: str
    basis: str
    source: str
    note: str


class RangeRow(NamedTuple):
    """The spot prices of one region, without zones."""

    usd_min: str
    usd_avg: str
    usd_max: str
    as_of: str
    basis: str
    source: str
    note: str


class BandRow(NamedTuple):
    """The Spot Advisor's band of monthly interruptions, and its stated saving."""

    band: str
    savings_percent: str
    as_of: str
    source: str


class TierRow(NamedTuple):
    """The price of one quantity tier of a bill item."""

    unit: str
    tier_from: str
    tier_to: str
    usd: str
    as_of: str
    basis: str
    source: str
    note: str


class Source(NamedTuple):
    """The source of numbers."""

    kind: str
    title: str
    note: str


class Index(Mapping[AnyKey, list[AnyRow]]):
    """The rows of a file by their first cells: name, region and what else is in a key.

    The rows of a name are parsed on its first use: a plan needs a few of thousands. The shipped lines are sorted, so
    that bisection finds those of a name.
    """

    def __init__(
        self, table: Table, newer: Iterable[list[str]], make: Callable[[list[str]], AnyRow], cells: int
    ) -> None:
        """The shipped rows of a table and `newer` ones; `make` makes a row of what follows the `cells` of its key."""
        self._lines, self._make, self._cells = tables.read_lines(table), make, cells
        self._newer: dict[str, list[list[str]]] = {}
        for row in newer:
            self._newer.setdefault(row[0], []).append(row)
        self._parsed: dict[str, dict[AnyKey, list[AnyRow]]] = {}

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The first cell of every key."""
        return tuple(dict.fromkeys((*(line.partition(",")[0] for line in self._lines), *self._newer)))

    def of(self, name: str) -> Mapping[AnyKey, list[AnyRow]]:
        """The rows of a name."""
        if name not in self._parsed:
            lines, cells, parsed = self._lines, self._cells, dict[Any, list[AnyRow]]()
            # "-" follows "," in the order of characters.
            shipped = lines[bisect_left(lines, f"{name},") : bisect_left(lines, f"{name}-")]
            for row in (*map(tables.cells_of, shipped), *self._newer.get(name, ())):
                parsed.setdefault(tuple(row[:cells]), []).append(self._make(row[cells:]))
            self._parsed[name] = parsed
        return self._parsed[name]

    def get(self, key: Any, default: Any = None) -> Any:
        """The rows of a key, or a default."""
        return self.of(key[0]).get(key, default)

    def __getitem__(self, key: AnyKey) -> list[AnyRow]:
        """The rows of a key."""
        return self.of(key[0])[key]

    def __iter__(self) -> Iterator[AnyKey]:
        """The keys."""
        return chain.from_iterable(map(self.of, self.names))

    def __len__(self) -> int:
        """The number of keys."""
        return sum(len(self.of(name)) for name in self.names)


Zoned: TypeAlias = Index[Place, Row]
Terms: TypeAlias = Index[tuple[str, str, str, str], TermRow]


class Store:
    """The shipped snapshot, combined with a folder of newer files in the same format."""

    def __init__(self, overlay: Path | None = None, today: date | None = None) -> None:
        """Read nothing yet; `overlay` is a folder that may be missing or lack files, with no row after `today`."""
        self.overlay = overlay
        self.today = today

    @cached_property
    def on_demand(self) -> Zoned:
        """On-demand prices, with their history."""
        return self._index(tables.ON_DEMAND, Row._make)

    @cached_property
    def spot(self) -> Zoned:
        """Spot prices per zone."""
        return self._index(tables.SPOT, Row._make)

    @cached_property
    def capacity_blocks(self) -> Zoned:
        """Capacity Block rates, with their history."""
        return self._index(tables.CAPACITY_BLOCKS, Row._make)

    @cached_property
    def training_plans(self) -> Zoned:
        """Training plan rates."""
        return self._index(tables.TRAINING_PLANS, Row._make)

    @cached_property
    def spot_ranges(self) -> Index[Place, RangeRow]:
        """Spot prices per region."""
        return self._index(tables.SPOT_RANGES, RangeRow._make)

    @cached_property
    def reserved_instances(self) -> Terms:
        """Reserved Instances by type, region, offering class and years."""
        return self._index(tables.RESERVED, TermRow._make, cells=4)

    @cached_property
    def savings_plans(self) -> Terms:
        """Savings Plan rates read from AWS by type, region, kind and years: none in the snapshot."""
        return self._index(tables.SAVINGS_PLANS, TermRow._make, cells=4)

    @cached_property
    def sagemaker(self) -> Index[Place, Row]:
        """SageMaker rates; `zone` is the component."""
        return self._index(tables.SAGEMAKER, Row._make)

    @cached_property
    def bands(self) -> Index[Place, BandRow]:
        """Bands of the Spot Advisor."""
        return self._index(tables.INTERRUPTIONS, BandRow._make)

    @cached_property
    def bill_items(self) -> Index[Place, TierRow]:
        """All billed items other than accelerators; region `*` applies everywhere."""
        return self._index(tables.BILL_ITEMS, TierRow._make)

    @cached_property
    def sources(self) -> Mapping[str, Source]:
        """Sources by id."""
        return {row[0]: Source._make(row[1:]) for row in (*tables.read(tables.SOURCES), *self._newer(tables.SOURCES))}

    def source_title(self, source: str) -> str:
        """The title of a source; its id if a cache names a source without describing it."""
        known = self.sources.get(source)
        return known.title if known else source

    def _newer(self, table: Table) -> Iterable[list[str]]:
        """The rows of a file of the overlay."""
        if self.overlay is None or not (self.overlay / table.path).exists():
            return ()
        return mark_implausible(table, tables.read(table), tables.read_checked(table, self.overlay, self.today))

    def _index(self, table: Table, make: Callable[[list[str]], AnyRow], *, cells: int = 2) -> Index[Any, AnyRow]:
        return Index(table, self._newer(table), make, cells)
