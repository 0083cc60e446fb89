"""Rows of the catalog's price files, read on first use and indexed by their lookup keys."""

from collections.abc import Mapping
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from launcher.catalog import tables
from launcher.catalog.plausibility import mark_implausible
from launcher.catalog.tables import Table

Place = tuple[str, str]
"""Instance type (or bill item) and region."""


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


Zoned = Mapping[Place, list[Row]]
Terms = Mapping[tuple[str, str, str, str], list[TermRow]]


class Store:
    """The shipped snapshot, combined with a folder of newer files in the same format."""

    def __init__(self, overlay: Path | None = None, today: date | None = None) -> None:
        """Read nothing yet; `overlay` is a folder that may be missing or lack files, with no row after `today`."""
        self.overlay = overlay
        self.today = today

    @cached_property
    def on_demand(self) -> Zoned:
        """On-demand prices, with their history."""
        return self._rows_by_zone(tables.ON_DEMAND)

    @cached_property
    def spot(self) -> Zoned:
        """Spot prices per zone."""
        return self._rows_by_zone(tables.SPOT)

    @cached_property
    def capacity_blocks(self) -> Zoned:
        """Capacity Block rates, with their history."""
        return self._rows_by_zone(tables.CAPACITY_BLOCKS)

    @cached_property
    def training_plans(self) -> Zoned:
        """Training plan rates."""
        return self._rows_by_zone(tables.TRAINING_PLANS)

    @cached_property
    def spot_ranges(self) -> Mapping[Place, list[RangeRow]]:
        """Spot prices per region."""
        index: dict[Place, list[RangeRow]] = {}
        for row in self._rows(tables.SPOT_RANGES):
            index.setdefault((row[0], row[1]), []).append(RangeRow._make(row[2:]))
        return index

    @cached_property
    def reserved(self) -> Terms:
        """Reserved Instances by type, region, offering class and years."""
        return self._terms(tables.RESERVED)

    @cached_property
    def savings_plans(self) -> Terms:
        """Savings Plan rates read from AWS by type, region, kind and years: none in the snapshot."""
        return self._terms(tables.SAVINGS_PLANS)

    @cached_property
    def sagemaker(self) -> Mapping[Place, list[Row]]:
        """SageMaker rates; `zone` is the component."""
        return self._rows_by_zone(tables.SAGEMAKER)

    def bands(self, place: Place) -> list[BandRow]:
        """Bands of the Spot Advisor, converted on demand: a plan needs a few hundred of thousands."""
        return [BandRow._make(row[2:]) for row in self._bands.get(place, ())]

    @cached_property
    def _bands(self) -> Mapping[Place, list[list[str]]]:
        index: dict[Place, list[list[str]]] = {}
        for row in self._rows(tables.INTERRUPTIONS):
            index.setdefault((row[0], row[1]), []).append(row)
        return index

    @cached_property
    def bill_items(self) -> Mapping[Place, list[TierRow]]:
        """All billed items other than accelerators; region `*` applies everywhere."""
        index: dict[Place, list[TierRow]] = {}
        for row in self._rows(tables.BILL_ITEMS):
            index.setdefault((row[0], row[1]), []).append(TierRow._make(row[2:]))
        return index

    @cached_property
    def sources(self) -> Mapping[str, Source]:
        """Sources by id."""
        return {row[0]: Source._make(row[1:]) for row in self._rows(tables.SOURCES)}

    def source_title(self, source: str) -> str:
        """The title of a source; its id if a cache names a source without describing it."""
        known = self.sources.get(source)
        return known.title if known else source

    def _rows(self, table: Table) -> list[list[str]]:
        shipped = tables.read(table)
        if self.overlay is None or not (self.overlay / table.path).exists():
            return shipped
        return [*shipped, *mark_implausible(table, shipped, tables.read_checked(table, self.overlay, self.today))]

    def _rows_by_zone(self, table: Table) -> dict[Place, list[Row]]:
        index: dict[Place, list[Row]] = {}
        for row in self._rows(table):
            index.setdefault((row[0], row[1]), []).append(Row._make(row[2:]))
        return index

    def _terms(self, table: Table) -> dict[tuple[str, str, str, str], list[TermRow]]:
        index: dict[tuple[str, str, str, str], list[TermRow]] = {}
        for row in self._rows(table):
            index.setdefault((row[0], row[1], row[2], row[3]), []).append(TermRow._make(row[4:]))
        return index
