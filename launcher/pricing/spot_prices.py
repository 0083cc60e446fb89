"""The spot price at the time of the job: the zone's price, the region's range, and the age of both.

Spot prices move while a job waits and runs, and an old row is less certain than a new one. Slipway assumes that a price
that is `d` days old lies within a factor exp(MOVES x sqrt(d)), like a random walk. EC2 bills spot at most at on demand,
unless the user requests a higher limit, and not below a tenth of it.
"""

import math
from datetime import date
from decimal import Decimal
from typing import NamedTuple

from launcher.catalog.load import Catalog
from launcher.catalog.market import FLOOR_FRACTION
from launcher.model.enums import Basis, Market
from launcher.model.money import Assumption, Price, UsdRange
from launcher.model.plan import Place
from launcher.model.target import target_of
from launcher.pricing.bill_lines import CENT_FRACTION
from launcher.pricing.derived_spot import MANAGED_SPOT, is_derived

MOVES = 0.033
"""Per square root of a day. Of 86 pairs of type and region of which spot.csv has a traded price on two days, 44 to 228
days apart and mostly 2025-12-21 and 2026-08-06, four in five stayed inside the range that this makes of the older day's
zones, and nine in ten did not rise above it; one factor for all types, for the small ones have too few pairs."""


class SpotPrice(NamedTuple):
    """Dollars of an instance-hour, low, middle and high, with the assumptions."""

    usd: UsdRange
    assumptions: tuple[Assumption, ...]


def spot_price(place: Place, price: Price, catalog: Catalog, today: date) -> SpotPrice:
    """The range around a spot price; the user's own price has no range.

    Args:
        place: the place; its zone is that of `price`.
        price: price of one instance-hour, after discounts.
        catalog: has the other zones, the region's range, and on demand.
        today: the day to which ages are counted.
    """
    if price.basis is Basis.USER:
        return SpotPrice(UsdRange(low=price.usd, mid=price.usd, high=price.usd), ())
    if target_of(place.target).managed_spot:
        return _managed(price)
    listed = catalog.spot(place.instance_type, place.region).get(place.az_id or "")
    taken_off = float(price.usd / listed.usd) if listed is not None and listed.usd else 1.0
    prices = [(float(price.usd), price.as_of), *((usd * taken_off, as_of) for usd, as_of in _of_region(place, catalog))]
    low = min(usd / _spread(as_of, today) for usd, as_of in prices)
    high = max(usd * _spread(as_of, today) for usd, as_of in prices)
    most = catalog.on_demand(place.instance_type, place.region)
    if isinstance(most, Price):
        ceiling = float(most.usd) * taken_off
        low, high = max(low, ceiling * FLOOR_FRACTION), ceiling if is_derived(place) else min(high, ceiling)
    usd = UsdRange(low=min(price.usd, _usd(low)), mid=price.usd, high=max(price.usd, _usd(high)))
    oldest = min(as_of for _, as_of in prices)
    line = Assumption(
        name="spot price while the job runs",
        value=f"{usd.low:.2f} to {usd.high:.2f}",
        unit="dollars an instance-hour",
        source=f"${price.usd:.2f} of {price.as_of} and {len(set(prices)) - 1} more of the region since {oldest}, each "
        f"widened by its age (the first by a factor of {_spread(price.as_of, today):.2f}), on demand at most",
    )
    return SpotPrice(usd, (line,))


def _managed(price: Price) -> SpotPrice:
    low, mid, high = (price.usd * share / MANAGED_SPOT[1] for share in MANAGED_SPOT)
    usd = UsdRange(low=low.quantize(CENT_FRACTION), mid=mid.quantize(CENT_FRACTION), high=high.quantize(CENT_FRACTION))
    line = Assumption(
        name="price of managed spot",
        value=f"{usd.low:.2f} to {usd.high:.2f}",
        unit="dollars an instance-hour",
        source='"up to 90 %" off is all that AWS publishes; 63 to 70 % off in public logs of 2019 to 2024, older types;'
        " at most the rate on demand. BillableTimeInSeconds of a finished job says what it was",
    )
    return SpotPrice(usd, (line,))


def _of_region(place: Place, catalog: Catalog) -> list[tuple[float, date]]:
    """Prices of the region's other offers, and the ends of the region's past range."""
    observed = [
        (float(quote.usd), quote.as_of)
        for zone, quote in catalog.spot(place.instance_type, place.region).items()
        if zone != place.az_id and quote.market is Market.OPEN
    ]
    known = catalog.spot_range(place.instance_type, place.region)
    ends = (known.low, known.average, known.high) if known is not None else ()
    return [*observed, *((float(end.usd), end.as_of) for end in ends if end is not None)]


def _spread(as_of: date, today: date) -> float:
    """The factor by which a price may have moved since its date."""
    return math.exp(MOVES * math.sqrt(max(0, (today - as_of).days)))


def _usd(value: float) -> Decimal:
    return Decimal(repr(value)).quantize(CENT_FRACTION)
