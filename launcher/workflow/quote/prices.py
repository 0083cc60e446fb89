"""Known prices: their values, their age, and the changes between two days. This module makes no calls."""

from collections.abc import Collection, Mapping
from datetime import date, datetime

from launcher.catalog import load as catalog_load
from launcher.catalog.listing import KINDS, PriceChange, PriceRow, difference, rows
from launcher.catalog.load import Catalog
from launcher.catalog.selector import Key
from launcher.catalog.store import Store
from launcher.model.enums import Basis, PurchaseOption
from launcher.model.errors import UnreadableInputError
from launcher.model.names import nearest_name
from launcher.model.record import record
from launcher.records.cache_folder import cache_folder


@record
class PriceFilter:
    """A filter of prices: a type (with or without `ml.`), a region, a kind; None: all."""

    instance_type: str | None = None
    region: str | None = None
    option: str | None = None


def known_catalog(environment: Mapping[str, str], now: datetime, prices_as_of: date | None = None) -> Catalog:
    """The shipped prices together with the environment's cache."""
    return catalog_load.load(prices_as_of=prices_as_of, overlay=cache_folder(environment), today=now.date())


def show(catalog: Catalog, price_filter: PriceFilter, now: datetime, *, history: bool) -> tuple[PriceRow, ...]:
    """The current rows: of each price the one that prices candidates, and any newer one that does not; or all rows.

    Sorted by kind, accelerators before other instances, type, region.

    Raises:
        UnreadableInputError: no row has the type, region or kind.
    """
    _check(catalog, price_filter)
    current = rows(
        catalog,
        instance_type=price_filter.instance_type,
        region=price_filter.region,
        option=price_filter.option,
        now=now.date(),
    )
    if not history:
        current = _holding(current)
    types = catalog.instance_types

    def order(row: PriceRow) -> tuple[int, bool, str, tuple[object, ...], date]:
        facts = types.get(row.name.removeprefix("ml."))
        return KINDS.index(row.kind), facts is not None and facts.accelerator is None, row.name, row.key, row.as_of

    return tuple(sorted(current, key=order))


def _holding(price_rows: Collection[PriceRow]) -> list[PriceRow]:
    """Of each price the current row and newer ones; the newest if no row is current.

    A zone's spot price that a row of its region replaces is history, unless it is newer and unverified.
    """
    groups: dict[Key, list[PriceRow]] = {}
    for row in price_rows:
        groups.setdefault(row.key, []).append(row)
    spot = PurchaseOption.SPOT.value
    whole = {key for key, group in groups.items() if key.kind == spot and any(row.current for row in group)}
    retained = []
    for key, group in groups.items():
        current = [row.as_of for row in group if row.current]
        region = key._replace(zone="")
        if not current and key.zone and region in whole:
            verified = max(row.as_of for row in groups[region] if row.current)
            retained += [row for row in group if row.basis is Basis.UNVERIFIED and row.as_of > verified]
            continue
        least = max(current or [row.as_of for row in group])
        retained += [row for row in group if row.current or row.as_of > least or (not current and row.as_of == least)]
    return retained


def diff(catalog: Catalog, price_filter: PriceFilter, before: date, after: date) -> tuple[PriceChange, ...]:
    """The changes between two days, in the order of the kinds.

    Raises:
        UnreadableInputError: no row has the given type, region or kind, or the days are in the wrong order.
    """
    _check(catalog, price_filter)
    if after < before:
        raise UnreadableInputError(f"{after} is before {before}", hint=f"slipway prices diff {after} {before}")
    changes = difference(
        catalog,
        before,
        after,
        instance_type=price_filter.instance_type,
        region=price_filter.region,
        option=price_filter.option,
    )
    return tuple(
        sorted(changes, key=lambda change: next(KINDS.index(row.kind) for row in (change.after, change.before) if row))
    )


def check_regions(catalog: Catalog, regions: Collection[str]) -> None:
    """Refuse a region that the catalog does not have.

    Raises:
        UnreadableInputError: the region is unknown; the error names the region and the nearest one.
    """
    for region in regions:
        if region not in catalog.regions:
            raise UnreadableInputError(f"no region {region} in the catalog", hint=nearest_name(region, catalog.regions))


def _check(catalog: Catalog, price_filter: PriceFilter) -> None:
    if price_filter.option is not None and price_filter.option not in KINDS:
        near = nearest_name(price_filter.option, KINDS)
        raise UnreadableInputError(f"no kind of price {price_filter.option}", hint=near or f"one of {', '.join(KINDS)}")
    if price_filter.region is not None:
        check_regions(catalog, (price_filter.region,))
    if price_filter.instance_type is not None:
        name = price_filter.instance_type.removeprefix("ml.")
        known = {*catalog.instance_types, *catalog.unavailable_types, *_priced_types(catalog.store)}
        unavailable = catalog.unavailable_type(name)
        if unavailable is not None and name not in known:
            raise UnreadableInputError(
                f"{name}: {unavailable.reason}", hint=f"slipway prices show --type {unavailable.name}"
            )
        if name not in known:
            raise UnreadableInputError(f"the catalog has no instance type {name}", hint=nearest_name(name, known))


def _priced_types(store: Store) -> set[str]:
    return {name.removeprefix("ml.") for name, _ in (*store.on_demand, *store.spot, *store.sagemaker)}
