"""Facts about the spot market: the range in a region, the advisor's band, and whether a type is offered."""

from collections.abc import Iterable
from datetime import date

from launcher.catalog.store import BandRow, Row, Store
from launcher.model.enums import Basis, Market
from launcher.model.record import record

TOLERANCE_USD = 0.0001
"""Tolerance of a spot price at the floor: it is rounded to four places, on-demand prices to five or six."""

NO_SAVING = 0.01
"""A spot price within this share of on demand equals on demand: the zone has no spare capacity."""

FLOOR_FRACTION = 0.1
"""EC2's spot price does not fall below a tenth of on demand; a zone at exactly this price has no traded market."""

_BANDS: tuple[tuple[int, int | None], ...] = ((0, 5), (5, 10), (10, 15), (15, 20), (20, None))
"""Percent of instances interrupted in a month, by the band's number in the Spot Advisor's data."""


@record
class InterruptionBand:
    """AWS's interruption rate of a type in a region over the last month, in percent of its instances.

    `high_percent` is None in the highest band. `savings_percent` is the advisor's saving over on demand.
    """

    low_percent: int
    high_percent: int | None
    savings_percent: int
    as_of: date
    source: str


def market_of(usd: str, on_demand: Iterable[Row]) -> Market:
    """The market of a spot row, compared with every known on-demand price of its type and region, of any date.

    Without a listed or derived on-demand price, an unverified one is used, for this comparison only.
    """
    listed: list[float] = []
    unverified: list[float] = []
    for row in on_demand:
        if row.usd:
            (unverified if row.basis == Basis.UNVERIFIED.value else listed).append(float(row.usd))
    spot = float(usd)
    for price in listed or unverified:
        if _equal(spot, price, NO_SAVING * price):
            return Market.NONE
        if _equal(spot, FLOOR_FRACTION * price):
            return Market.FLOOR
    return Market.OPEN


def _equal(left: float, right: float, tolerance: float = TOLERANCE_USD) -> bool:
    """Whether two prices are equal within the tolerance, its bound included despite float rounding."""
    return round(abs(left - right), 9) <= tolerance


def band_of(row: BandRow, store: Store) -> InterruptionBand:
    """A row of the advisor as a value."""
    low, high = _BANDS[int(row.band)]
    return InterruptionBand(
        low_percent=low,
        high_percent=high,
        savings_percent=int(row.savings_percent),
        as_of=date.fromisoformat(row.as_of),
        source=store.source_title(row.source),
    )
