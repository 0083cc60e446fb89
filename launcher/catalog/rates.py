"""Every current rate of one way of buying, as plain numbers: for filtering and ranking before any object is built."""

from collections.abc import Iterator
from typing import NamedTuple

from launcher.catalog.catalog import Catalog
from launcher.catalog.commitments import PARITY, rate_of
from launcher.catalog.market import market_of
from launcher.catalog.selection import newest
from launcher.catalog.store import Row, TermRow, Zoned
from launcher.model.enums import Market, Payment, PurchaseOption


class Rate(NamedTuple):
    """One rate in USD per instance-hour; what does not apply is empty or zero.

    `kind` is the Savings Plan's kind or the Reserved Instance's offering class. The full `Price` of a rate that is kept
    is had from the catalog.
    """

    instance_type: str
    region: str
    zone: str
    usd: float
    as_of: str
    market: Market = Market.OPEN
    kind: str = ""
    term_years: int = 0
    payment: str = ""


def rates(catalog: Catalog, option: PurchaseOption) -> Iterator[Rate]:
    """Each combination that `catalog` prices, once, in file order; nothing for Bedrock, which has no instances."""
    store = catalog.store
    match option:
        case PurchaseOption.ON_DEMAND:
            yield from _zoned(catalog, store.on_demand)
        case PurchaseOption.SPOT:
            for rate in _zoned(catalog, store.spot):
                against = store.on_demand.get((rate.instance_type, rate.region), ())
                yield rate._replace(market=market_of(repr(rate.usd), against))
        case PurchaseOption.CAPACITY_BLOCK:
            yield from _zoned(catalog, store.capacity_blocks)
        case PurchaseOption.TRAINING_PLAN:
            yield from _zoned(catalog, store.training_plans)
        case PurchaseOption.RESERVED:
            for (name, region, offering_class, years), rows in store.reserved.items():
                yield from _terms(catalog, (name, region, offering_class, int(years)), rows)
        case PurchaseOption.SAVINGS_PLAN:
            yield from _plans(catalog)
        case PurchaseOption.BEDROCK:
            return


def _zoned(catalog: Catalog, index: Zoned) -> Iterator[Rate]:
    for (name, region), rows in index.items():
        zones: dict[str, list[Row]] = {}
        for row in rows:
            zones.setdefault(row.zone, []).append(row)
        for zone, same in zones.items():
            best = newest(same, _usd, catalog.until)
            if best is not None:
                yield Rate(name, region, zone, float(best.usd), best.as_of)


def _plans(catalog: Catalog) -> Iterator[Rate]:
    """For each term the newer of the rate read from AWS and that of the Reserved Instance; on a tie the one read."""
    store = catalog.store
    found: dict[tuple[str, ...], Rate] = {}
    for (name, region, offering_class, years), rows in store.reserved.items():
        kind = next(kind.value for kind, equal in PARITY.items() if equal == offering_class)
        for rate in _terms(catalog, (name, region, kind, int(years)), rows):
            found[name, region, kind, years, rate.payment] = rate
    for (name, region, kind, years), rows in store.savings_plans.items():
        for rate in _terms(catalog, (name, region, kind, int(years)), rows):
            older = found.get((name, region, kind, years, rate.payment))
            if older is None or rate.as_of >= older.as_of:
                found[name, region, kind, years, rate.payment] = rate
    yield from found.values()


def _terms(catalog: Catalog, term: tuple[str, str, str, int], rows: list[TermRow]) -> Iterator[Rate]:
    name, region, kind, years = term
    for payment in Payment:
        usd = rate_of(payment)
        best = newest(rows, usd, catalog.until)
        if best is not None:
            yield Rate(
                name, region, "", float(usd(best)), best.as_of, kind=kind, term_years=years, payment=payment.value
            )


def _usd(row: Row) -> str:
    return row.usd
