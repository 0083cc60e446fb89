"""Fetched prices: their rows of the cache, and their changes.

The user's cache has the same files as the snapshot (`tables`); a rate is one price on its way to the cache.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import date
from decimal import Decimal
from itertools import product
from typing import NamedTuple

from launcher.catalog import tables
from launcher.catalog.plausibility import FELL
from launcher.catalog.selection import FOREVER, newest
from launcher.catalog.selector import SAGEMAKER, Key, rate_of, usd_of, zoned_rows
from launcher.catalog.store import Store, Terms, Zoned
from launcher.catalog.tables import Table
from launcher.model.enums import Basis, Payment, PurchaseOption, SavingsPlanKind
from launcher.model.record import record

TABLES: Mapping[str, Table] = {
    "on-demand": tables.ON_DEMAND,
    "spot": tables.SPOT,
    "capacity-block": tables.CAPACITY_BLOCKS,
    "training-plan": tables.TRAINING_PLANS,
    "reserved": tables.RESERVED,
    "savings-plan": tables.SAVINGS_PLANS,
    SAGEMAKER: tables.SAGEMAKER,
}
"""The table of each kind of rate."""

_CALLS = {
    "on-demand": ("aws-price-list-ec2", "AWS Price List API, GetProducts AmazonEC2"),
    "reserved": ("aws-price-list-ec2", "AWS Price List API, GetProducts AmazonEC2"),
    SAGEMAKER: ("aws-price-list-sagemaker", "AWS Price List API, GetProducts AmazonSageMaker"),
    "spot": ("aws-spot-price-history", "EC2 API, DescribeSpotPriceHistory"),
    "capacity-block": ("aws-capacity-block-offerings", "EC2 API, DescribeCapacityBlockOfferings"),
    "training-plan": ("aws-training-plan-offerings", "SageMaker API, SearchTrainingPlanOfferings"),
    "savings-plan": ("aws-savings-plans-rates", "Savings Plans API, DescribeSavingsPlansOfferingRates"),
}
"""Source id and title by kind."""

_FILES = {
    "aws-price-file-ec2": "AWS Price List, public offer file of AmazonEC2",
    "aws-price-file-sagemaker": "AWS Price List, public offer file of AmazonSageMaker",
    "aws-price-file": "AWS Price List, public offer files",
    "aws-spot-page": "AWS, the file behind the Spot price page",
    "aws-spot-advisor": "AWS Spot Instance Advisor, its public data",
}
"""Source id and title of the data that AWS publishes without an account."""

SOURCE_ROWS = tuple(
    sorted(
        {(call, "api", title, "read by prices refresh") for call, title in _CALLS.values()}
        | {(file, "public-file", title, "read by prices refresh") for file, title in _FILES.items()}
    )
)
"""The rows of the cache's sources.csv."""

JUMP = Decimal("0.5")
"""Slipway reports a price after a refresh if it moved by more than this share: a choice of this project. Except for
spot, it also reports a fall by more than `plausibility.FELL`."""


@record
class FetchedPrice:
    """One price, USD per instance-hour, as AWS returned it; `source` is the id of a public file, empty for an API."""

    key: Key
    usd: Decimal
    note: str = ""
    source: str = ""


@record
class FetchedBand:
    """The Spot Instance Advisor's data on one type in one region: its band (0 to 4) and saving, with a date."""

    name: str
    region: str
    band: int
    savings_percent: int
    as_of: date

    @property
    def row(self) -> tuple[str, ...]:
        """The row of the cache's file of bands."""
        where = (self.name, self.region, str(self.band), str(self.savings_percent))
        return (*where, self.as_of.isoformat(), "aws-spot-advisor")


@record
class FetchedItem:
    """One quantity tier of a bill item, in dollars per unit."""

    item: str
    region: str
    unit: str
    # The quantity of a month from which the tier applies.
    start: Decimal
    # The quantity up to which it applies; None: without end.
    end: Decimal | None
    usd: Decimal
    # The part of its product's description that no public reading of the Price List confirms.
    doubt: str = ""

    def row(self, as_of: date) -> tuple[str, ...]:
        """The row of the cache's file of bill items."""
        tier = (plain(self.start), "" if self.end is None else plain(self.end))
        note = f"which product it is, is not confirmed: {self.doubt}" if self.doubt else ""
        origin = (as_of.isoformat(), Basis.LISTED.value, "aws-price-file", note)
        return (self.item, self.region, self.unit, *tier, plain(self.usd), *origin)


@record
class Refusal:
    """A price that AWS returned and that Slipway rejects, with the reason: a zero, another currency."""

    key: Key
    reason: str


@record(described=False)
class Unmatched:
    """A bill item with no price, or several different ones, in an answer: the older price stays in use."""

    item: str
    region: str
    reason: str


@record
class Answer:
    """The result of one query to AWS: compute rates, bands of spot interruptions, tiers of bill items.

    `unmatched` are the queried bill items that were not found, or found several times.
    `as_of` is the date of the prices if AWS's answer has one, None for the day on which they are read.
    """

    rates: tuple[FetchedPrice, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    bands: tuple[FetchedBand, ...] = ()
    items: tuple[FetchedItem, ...] = ()
    unmatched: tuple[Unmatched, ...] = ()
    as_of: date | None = None

    @property
    def prices(self) -> int:
        """The number of prices and bands."""
        return len(self.rates) + len(self.bands) + len(self.items)


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


def answer(rates: Iterable[FetchedPrice], refusals: Iterable[Refusal] = ()) -> Answer:
    """An answer with one rate a key, the highest; a refusal counts only if its key has no price."""
    dearest: dict[Key, FetchedPrice] = {}
    for rate in rates:
        same = dearest.get(rate.key)
        if same is None or rate.usd > same.usd:
            dearest[rate.key] = rate
    remaining = {refusal.key: refusal for refusal in refusals if refusal.key not in dearest}
    return Answer(rates=tuple(dearest.values()), refusals=tuple(refusal for _, refusal in sorted(remaining.items())))


def file_rows(answer: Answer, as_of: date) -> dict[Table, list[tuple[str, ...]]]:
    """The rows of the cache's files, by file; the payment options of one commitment share a row."""
    rows_by_table: dict[Table, list[tuple[str, ...]]] = {}
    if answer.bands:
        rows_by_table[tables.INTERRUPTIONS] = [band.row for band in answer.bands]
    if answer.items:
        rows_by_table[tables.BILL_ITEMS] = [item.row(as_of) for item in answer.items]
    terms: dict[Key, dict[str, FetchedPrice]] = {}
    for rate in answer.rates:
        key = rate.key
        if key.payment:
            terms.setdefault(key._replace(payment=""), {})[key.payment] = rate
        else:
            place = key.detail if key.kind == SAGEMAKER else key.zone
            row = (key.name, key.region, place, plain(rate.usd), *_origin(rate, as_of))
            rows_by_table.setdefault(TABLES[key.kind], []).append(row)
    for term, paid in terms.items():
        rates = (plain(paid[payment.value].usd) if payment.value in paid else "" for payment in Payment)
        origin = _origin(next(iter(paid.values())), as_of)
        rows_by_table.setdefault(TABLES[term.kind], []).append(
            (term.name, term.region, term.detail, str(term.term_years), *rates, *origin)
        )
    return rows_by_table


def _origin(rate: FetchedPrice, as_of: date) -> tuple[str, str, str, str]:
    return as_of.isoformat(), Basis.LISTED.value, rate.source or _CALLS[rate.key.kind][0], rate.note


def plain(usd: Decimal) -> str:
    """A price in the format of the files.

    >>> plain(Decimal("55.0400000000")), plain(Decimal("1E+2"))
    ('55.04', '100')
    """
    text = format(usd, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


class KnownPrice(NamedTuple):
    """A previously known price."""

    usd: Decimal
    as_of: date


def known_prices(store: Store, kind: str, names: Collection[str], regions: Collection[str]) -> dict[Key, KnownPrice]:
    """The current prices for some types in some regions, by their key."""
    if kind in ("reserved", "savings-plan"):
        index = store.reserved if kind == "reserved" else store.savings_plans
        return dict(_terms(index, kind, names, regions))
    zoned = store.sagemaker if kind == SAGEMAKER else zoned_rows(store, kind)
    return dict(_zoned(zoned, kind, names, regions))


def _zoned(
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


def vanished_prices(before: Mapping[Key, KnownPrice], current: Answer) -> tuple[Move, ...]:
    """The known prices that are missing in a complete answer; a refused price is not missing."""
    seen_keys = {rate.key for rate in current.rates} | {refusal.key for refusal in current.refusals}
    return tuple(
        Move(key=key, before=old.usd, before_as_of=old.as_of, after=None)
        for key, old in sorted(before.items())
        if key not in seen_keys
    )
