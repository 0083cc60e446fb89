"""Selects the row that prices an item on a day, read for this item or derived.

Every price, rate and listing of compute uses this module, so that they cannot disagree.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Literal, NamedTuple

from launcher.catalog.market import market_of
from launcher.catalog.selection import PRICING, newest, newest_unverified
from launcher.catalog.store import Row, Store, TermRow, Zoned
from launcher.model.enums import Basis, Market, Payment, PurchaseOption, SavingsPlanKind

OfferingClass = Literal["standard", "convertible"]

SAGEMAKER = "sagemaker"
"""The kind of an on-demand price of SageMaker; every other kind is a purchase option."""

RESERVED, SAVINGS_PLAN = PurchaseOption.RESERVED.value, PurchaseOption.SAVINGS_PLAN.value
SPOT, CAPACITY_BLOCK = PurchaseOption.SPOT.value, PurchaseOption.CAPACITY_BLOCK.value
"""Kinds with rows, as constants: thousands of keys are compared with them."""
DERIVED = Basis.DERIVED.value

APART = "cluster"
"""The SageMaker component with a separate rate, HyperPod: 1.18 to 1.25 times EC2's; the others are 1.15 times."""

BY_RATIO = frozenset(("training", "hosting", APART))
"""The SageMaker components whose rates are derived from EC2's in regions for which no source has them."""
NOT_LISTED = "no source has SageMaker's here"
"""The end of such a rate's note: whether SageMaker sells the type there, the rate does not say."""

PARITY: dict[SavingsPlanKind, OfferingClass] = {
    SavingsPlanKind.EC2_INSTANCE: "standard",
    SavingsPlanKind.COMPUTE: "convertible",
}
"""The class of Reserved Instance whose price a Savings Plan equals: an assumption, not read from a price file."""
_EQUAL: Mapping[str, OfferingClass] = {plan.value: equal for plan, equal in PARITY.items()}

UNSTATED = "unstated"
"""The region of rows whose source names none: shown, never a price."""
_ZONED = {
    PurchaseOption.ON_DEMAND.value: attrgetter("on_demand"),
    SPOT: attrgetter("spot"),
    CAPACITY_BLOCK: attrgetter("capacity_blocks"),
    PurchaseOption.TRAINING_PLAN.value: attrgetter("training_plans"),
}
_RATES: dict[str, Callable[[TermRow], str]] = {
    payment.value: attrgetter(payment.value.replace("-", "_")) for payment in Payment
}


class Key(NamedTuple):
    """The identity of a price."""

    # A purchase option or SAGEMAKER.
    kind: str
    # With the prefix `ml.` for SageMaker rates and plans; the EC2 type for training plans.
    name: str
    region: str
    # A zone id, or the name of a local zone.
    zone: str = ""
    # The SageMaker component, offering class or plan kind.
    detail: str = ""
    term_years: int = 0
    payment: str = ""

    def at(self, region: str, zone: str = "") -> "Key":
        """The same key in another region or zone."""
        return Key(self.kind, self.name, region, zone, self.detail, self.term_years, self.payment)


class RowSelector:
    """The rows of one store as they price on one day; the same key always has the same row."""

    def __init__(self, store: Store, until: str) -> None:
        self.store = store
        self.until = until
        self._chosen: dict[Key, Row | None] = {}
        self._contradictions: dict[Key, Row | None] = {}
        self._highest_ratios: dict[tuple[str, str], tuple[float, str, str] | None] = {}

    def row(self, key: Key) -> Row | None:
        """The row that prices a key; None if no row may."""
        try:
            return self._chosen[key]
        except KeyError:
            row = self._chosen[key] = newest(self.rows(key), usd_of, self.until)
            return row

    def rows(self, key: Key) -> Sequence[Row]:
        """Every row that applies to a key, of any date and basis: first those read for it, then those derived for it.

        Rows that may not price are not used for derivation. A type that a region sells only in its local zones has
        their Capacity Block rate, with the zone in the row. A regional spot price replaces an older zonal price, and
        the zonal prices serve as the region's price: of one day the highest.
        """
        if key.kind == SAGEMAKER:
            return tuple(self._billed_alike(key)) or tuple(self._by_ratio(key))
        if key.kind == RESERVED:
            return self._terms(key)
        if key.kind == SAVINGS_PLAN:
            return [*self._terms(key), *self._at_parity(key)]
        every = self._region(key)
        same = [row for row in every if row.zone == key.zone]
        if key.kind == SPOT:
            return (*same, *_rows_of_other_zones(every, key.zone))
        sold_locally = not same and not key.zone and key.kind == CAPACITY_BLOCK
        return every if sold_locally else same

    def unverified_row(self, key: Key) -> Row | None:
        """The newest row that may be shown next to a price but is none."""
        return newest_unverified(self.rows(key), usd_of, self.until)

    def contradiction(self, key: Key) -> Row | None:
        """An unverified row that is newer than the pricing row; rows without a region apply to all regions."""
        if key not in self._contradictions:
            self._contradictions[key] = self._contradiction(key)
        return self._contradictions[key]

    def _contradiction(self, key: Key) -> Row | None:
        priced = self.row(key)
        everywhere = self.rows(key._replace(region=UNSTATED))
        # Of spot a word on any zone speaks for a region, and one on the region for each of its zones.
        near = self._region(key) if key.kind == SPOT else ()
        near = [row for row in near if not (row.zone and key.zone)]
        unverified_price = newest_unverified([*self.rows(key), *near, *everywhere], usd_of, self.until)
        return (
            unverified_price
            if priced is not None and unverified_price is not None and unverified_price.as_of > priced.as_of
            else None
        )

    def zones(self, key: Key) -> tuple[str, ...]:
        """The zones in the prices of a kind, type and region by the day, regardless of the key's zone."""
        rows = self._region(key)
        return tuple(dict.fromkeys(row.zone for row in rows if row.usd and row.as_of <= self.until))

    def spot_zones(self, name: str, region: str) -> tuple[str | None, ...]:
        """The spot locations of a region: the zones whose own price applies, and None for any zone.

        None is used if a price without a zone was ever read, even if newer rows exist: a place picked before a refresh
        is then found again. A zone that only has such a regional price is no separate location.
        """
        key = Key(SPOT, name, region)
        zones = self.zones(key)
        chosen = {zone: self.row(key._replace(zone=zone)) for zone in zones if zone}
        zonal = tuple(zone for zone, row in chosen.items() if row is not None and row.zone == zone)
        return zonal if zonal and "" not in zones else (*zonal, None)

    def market(self, row: Row, name: str, region: str) -> Market:
        """The market of a spot row, compared with the on-demand rows of its type and region."""
        return market_of(row.usd, self.store.on_demand.get((name, region), ()))

    def _region(self, key: Key) -> Sequence[Row]:
        rows: Sequence[Row] = zoned_rows(self.store, key.kind).get((key.name, key.region), ())
        return rows

    def _billed_alike(self, key: Key) -> Iterator[Row]:
        """The rates of a SageMaker component, and those of the others: all but HyperPod are billed alike."""
        for row in self.store.sagemaker.get((key.name, key.region), ()):
            if row.zone == key.detail:
                yield row
            elif row.basis in PRICING and APART not in (row.zone, key.detail):
                yield _as_derived(row, f"the rate of {row.zone}, which is billed alike")

    def _by_ratio(self, key: Key) -> Iterator[Row]:
        """The rate of a component in a region for which no source has one: EC2's there times the type's ratio.

        The ratio of the component to EC2 is that of another region, the highest known. The one published rate outside
        the US, training on ml.g6.xlarge in Tokyo (1.634, the offer file of 2026-09-23 by a public cost model), agrees
        within 0.1 %.
        """
        plain = self.row(self._plain(key)) if key.detail in BY_RATIO else None
        highest = self._highest_ratio(key) if plain is not None else None
        if plain is None or highest is None:
            return
        ratio, as_of, where = highest
        note = f"EC2's rate here times {ratio:.3f}, SageMaker's over EC2's in {where}: {NOT_LISTED}"
        usd = f"{float(plain.usd) * ratio:.4f}"
        yield Row(key.detail, usd, min(plain.as_of, as_of), DERIVED, plain.source, note)

    def _highest_ratio(self, key: Key) -> tuple[float, str, str] | None:
        """The highest of the ratios, computed once for a type and component."""
        item = (key.name, key.detail)
        if item not in self._highest_ratios:
            self._highest_ratios[item] = max(self._ratios(key), key=_ratio_order, default=None)
        return self._highest_ratios[item]

    def _ratios(self, key: Key) -> Iterator[tuple[float, str, str]]:
        """SageMaker's listed rate over EC2's, the older of the two dates, and the region, of every region with both."""
        for _, region in self.store.sagemaker.of(key.name):
            there = key.at(region)
            service = newest(self._billed_alike(there), usd_of, self.until)
            plain = self.row(self._plain(there)) if service is not None else None
            if service is not None and plain is not None:
                yield float(service.usd) / float(plain.usd), min(service.as_of, plain.as_of), region

    @staticmethod
    def _plain(key: Key) -> Key:
        """The key of EC2's on-demand price of the same type and region."""
        return Key(PurchaseOption.ON_DEMAND.value, key.name.removeprefix("ml."), key.region)

    def _terms(self, key: Key) -> list[Row]:
        index = self.store.reserved_instances if key.kind == RESERVED else self.store.savings_plans
        known = index.get((key.name, key.region, key.detail, str(key.term_years)))
        if not known:
            return []
        rate = _RATES[key.payment]
        return [Row("", rate(row), row.as_of, row.basis, row.source, row.note) for row in known]

    def _at_parity(self, key: Key) -> list[Row]:
        equal = _EQUAL.get(key.detail)
        if equal is None:
            return []
        alike = self.store.reserved_instances.get((key.name, key.region, equal, str(key.term_years)))
        if not alike:
            return []
        rate, why = _RATES[key.payment], f"assumed equal to the {equal} Reserved Instance"
        return [
            Row("", rate(row), row.as_of, DERIVED, row.source, f"{row.note}; {why}" if row.note else why)
            for row in alike
            if row.basis in PRICING
        ]


def _ratio_order(known: tuple[float, str, str]) -> tuple[float, str]:
    """Ratios by their first three digits, then by their date."""
    ratio, as_of, _ = known
    return round(ratio, 3), as_of


def zoned_rows(store: Store, kind: str) -> Zoned:
    """The rows of a kind with one price per zone or region.

    Raises:
        KeyError: the kind has no such rows.
    """
    rows: Zoned = _ZONED[kind](store)
    return rows


def rate_of(payment: Payment) -> Callable[[TermRow], str]:
    """The function that reads the rate of one payment option from a row."""
    return _RATES[payment.value]


def _rows_of_other_zones(rows: Sequence[Row], zone: str) -> Iterator[Row]:
    """The spot prices that apply to a zone but were not read for it: the region's; for the region its zones'."""
    why = "a price of the region, newer than the zone's own" if zone else "the dearest zone's of the day"
    for row in rows:
        if bool(row.zone) is not bool(zone) and row.basis in PRICING:
            yield _as_derived(row, why)


def usd_of(row: Row) -> str:
    """A row's price as text, empty without a price."""
    return row.usd


def _as_derived(row: Row, why: str) -> Row:
    """A row that was read for one item, as the price of another."""
    return Row(row.zone, row.usd, row.as_of, DERIVED, row.source, f"{row.note}; {why}" if row.note else why)
