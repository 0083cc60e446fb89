"""Changes between known prices and those that were just read: large moves, and prices that AWS no longer returns."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import date
from decimal import Decimal
from itertools import product
from typing import NamedTuple

from launcher.catalog.fetched_prices import FetchedPrice, FetchedPrices
from launcher.catalog.plausibility import FELL
from launcher.catalog.selection import FOREVER, newest
from launcher.catalog.selector import SAGEMAKER, Key, rate_of, usd_of, zoned_rows
from launcher.catalog.store import Store, Terms, Zoned
from launcher.model.enums import Payment, PurchaseOption, SavingsPlanKind
from launcher.model.record import record

JUMP = Decimal("0.5")
"""Slipway reports a price after a refresh if it moved by more than this share: a choice of this project. Except for
spot, it also reports a fall by more than `plausibility.FELL`."""


@record
class Move:
    """A price that jumped, or is gone (`after` None): USD per instance-hour before and after, and the old date."""

    key: Key
    before: Decimal
    before_as_of: date
    after: Decimal | None

    @property
    def percent(self) -> float | None:
        """The change in percent of the old price.

        >>> key = Key("spot", "p5.48xlarge", "us-east-1", "use1-az2")
        >>> Move(key=key, before=Decimal(10), before_as_of=date(2026, 1, 1), after=Decimal(16)).percent
        60.0
        """
        return None if self.after is None else percent(self.before, self.after)


def percent(before: Decimal, after: Decimal) -> float:
    """A change in percent of the old value, to the hundredth.

    >>> percent(Decimal("98.32"), Decimal("55.04"))
    -44.02
    """
    return round(float((after / before - 1) * 100), 2)


class KnownPrice(NamedTuple):
    """A previously known price."""

    usd: Decimal
    as_of: date


def known_prices(store: Store, kind: str, names: Collection[str], regions: Collection[str]) -> dict[Key, KnownPrice]:
    """The current prices for some types in some regions, by their key."""
    if kind in ("reserved", "savings-plan"):
        index = store.reserved_instances if kind == "reserved" else store.savings_plans
        return dict(_terms(index, kind, names, regions))
    zoned = store.sagemaker if kind == SAGEMAKER else zoned_rows(store, kind)
    return dict(_zoned_prices(zoned, kind, names, regions))


def _zoned_prices(
    index: Zoned, kind: str, names: Collection[str], regions: Collection[str]
) -> Iterator[tuple[Key, KnownPrice]]:
    for name, region in product(names, regions):
        rows = index.get((name, region), ())
        for zone in {row.zone for row in rows}:
            row = newest((zone_row for zone_row in rows if zone_row.zone == zone), usd_of, FOREVER)
            if row is not None:
                place = Key(kind, name, region)
                place = place._replace(detail=zone) if kind == SAGEMAKER else place._replace(zone=zone)
                yield place, KnownPrice(Decimal(row.usd), date.fromisoformat(row.as_of))


def _terms(
    index: Terms, kind: str, names: Collection[str], regions: Collection[str]
) -> Iterator[tuple[Key, KnownPrice]]:
    details = (
        ("standard", "convertible")
        if kind == "reserved"
        else tuple(savings_plan_kind.value for savings_plan_kind in SavingsPlanKind)
    )
    for name, region, detail, years, payment in product(names, regions, details, ("1", "3"), Payment):
        usd = rate_of(payment)
        row = newest(index.get((name, region, detail, years), ()), usd, FOREVER)
        if row is not None:
            key = Key(kind, name, region, "", detail, int(years), payment.value)
            yield key, KnownPrice(Decimal(usd(row)), date.fromisoformat(row.as_of))


def jumps(before: Mapping[Key, KnownPrice], rates: Iterable[FetchedPrice]) -> tuple[Move, ...]:
    """The prices that moved by more than JUMP, or fell by more than FELL."""
    moves = []
    for rate in rates:
        old = before.get(rate.key)
        most = JUMP if rate.key.kind == PurchaseOption.SPOT.value else FELL
        if old is not None and (rate.usd / old.usd - 1 > JUMP or 1 - rate.usd / old.usd > most):
            moves.append(Move(key=rate.key, before=old.usd, before_as_of=old.as_of, after=rate.usd))
    return tuple(moves)


def vanished_prices(before: Mapping[Key, KnownPrice], current: FetchedPrices) -> tuple[Move, ...]:
    """The known prices that are missing in a complete answer; a refused price is not missing."""
    seen_keys = {rate.key for rate in current.rates} | {refusal.key for refusal in current.refusals}
    return tuple(
        Move(key=key, before=old.usd, before_as_of=old.as_of, after=None)
        for key, old in sorted(before.items())
        if key not in seen_keys
    )
