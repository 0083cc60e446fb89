"""Fetched prices, and their rows of the cache.

The user's cache has the same files as the snapshot (`tables`); a rate is one price on its way to the cache.
"""

from collections.abc import Iterable, Mapping
from datetime import date
from decimal import Decimal

from launcher.catalog import tables
from launcher.catalog.selector import SAGEMAKER, Key
from launcher.catalog.tables import Table
from launcher.model.enums import Basis, Payment
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
class FetchedPrices:
    """The result of one query to AWS."""

    # Compute rates, and those that were refused.
    rates: tuple[FetchedPrice, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    # Bands of spot interruptions.
    bands: tuple[FetchedBand, ...] = ()
    # Tiers of bill items.
    items: tuple[FetchedItem, ...] = ()
    # The queried bill items that were not found, or found several times.
    unmatched: tuple[Unmatched, ...] = ()
    # The date of the prices if AWS's answer has one; None: the day on which they are read.
    as_of: date | None = None

    @property
    def prices(self) -> int:
        """The number of prices and bands."""
        return len(self.rates) + len(self.bands) + len(self.items)


def answer(rates: Iterable[FetchedPrice], refusals: Iterable[Refusal] = ()) -> FetchedPrices:
    """An answer with one rate a key, the highest; a refusal counts only if its key has no price."""
    dearest: dict[Key, FetchedPrice] = {}
    for rate in rates:
        same = dearest.get(rate.key)
        if same is None or rate.usd > same.usd:
            dearest[rate.key] = rate
    remaining = {refusal.key: refusal for refusal in refusals if refusal.key not in dearest}
    return FetchedPrices(
        rates=tuple(dearest.values()), refusals=tuple(refusal for _, refusal in sorted(remaining.items()))
    )


def file_rows(answer: FetchedPrices, as_of: date) -> dict[Table, list[tuple[str, ...]]]:
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
