"""The spot price while a job runs, forecast from the zone's newest price.

The forecast returns to the type's long-run share of on demand with the price's age, and is the wider the older the
price is and the longer the job runs (`catalog.spot_process`; benchmarks/fit_spot.py holds it against later prices).
Older rows only fit the process. EC2 bills spot at most at on demand, unless the user requests a higher limit, and not
below a tenth of it.
"""

import math
from dataclasses import replace
from datetime import date
from decimal import Decimal
from functools import cached_property
from typing import NamedTuple

from launcher.catalog.load import Catalog
from launcher.catalog.market import FLOOR_FRACTION
from launcher.catalog.selector import SPOT, Key, RowSelector
from launcher.catalog.spot_process import load_spot_process
from launcher.catalog.store import Row
from launcher.model.enums import Basis, Market, PurchaseOption
from launcher.model.money import Assumption, Price, UsdRange
from launcher.model.plan import Place
from launcher.model.record import record
from launcher.model.units import number_of
from launcher.pricing.bill_lines import CENT_FRACTION
from launcher.pricing.derived_spot import MANAGED_SPOT
from launcher.pricing.joint import HIGH, LOW, RandomPrice
from launcher.targets.registry import target_of

HOURS_A_DAY = 24.0
AVERAGED = 3.0
"""The mean of a price over a job varies like the price after a third of the job: a random walk's mean does."""
MANAGED_LEAST, MANAGED_MOST = (float(share / MANAGED_SPOT[1]) for share in (MANAGED_SPOT[0], MANAGED_SPOT[2]))
MANAGED_SCALE = math.log(MANAGED_MOST) / 1.645
"""The scale of managed spot's price at which one run in twenty gets no discount: a judgement."""


_MANAGED_SOURCE = (
    '"up to 90 %" off is all that AWS publishes; 63 to 70 % off in public logs of 2019 to 2024, older types; at most'
    " the rate on demand. BillableTimeInSeconds of a finished job says what it was"
)


@record(slots=False)
class SpotForecast:
    """The forecast of EC2's spot price in one zone on one day."""

    # The newest price, and its age.
    usd: float
    days: int
    # The correlation between that price's zone and the job's.
    alike: float
    # The type's price in the long run, None if unknown.
    long_run: float | None
    # The price on demand, None if unknown.
    most: float | None
    # Without a traded market the newest price stays.
    traded: bool = True

    @cached_property
    def middle(self) -> float:
        """The median of the price today, dollars to the hundredth of a cent."""
        if self.long_run is None or not self.traded or self.usd <= 0.0:
            return self.usd
        kept = self.alike * load_spot_process().remaining_share(self.days)
        forecast: float = self.long_run * (self.usd / self.long_run) ** kept
        if self.most is not None:
            forecast = min(max(forecast, self.most * FLOOR_FRACTION), self.most)
        return round(forecast, 4)

    def random(self, usd: float, hours: float) -> RandomPrice:
        """The distribution of the mean price while a job runs for some hours.

        Args:
            usd: the median today at the place: after discounts, and at the rates of a service that follows EC2's.
            hours: of the job.
        """
        process = load_spot_process()
        left = self.alike * process.remaining_share(self.days + hours / HOURS_A_DAY / AVERAGED)
        scale = process.scale * math.sqrt(1.0 - left * left)
        if self.most is None or self.middle <= 0.0:
            return RandomPrice(usd, scale)
        most = max(self.most, self.middle) * usd / self.middle
        return RandomPrice(usd, scale, min(usd, most * FLOOR_FRACTION), most)


def spot_forecast(row: Row, key: Key, selector: RowSelector, today: date) -> SpotForecast:
    """The forecast of a row of spot.csv for the zone in the key.

    Args:
        row: the newest row.
        key: of the price.
        selector: has on demand.
        today: the day to which ages are counted.
    """
    process = load_spot_process()
    known = selector.row(Key(PurchaseOption.ON_DEMAND.value, key.name, key.region))
    most = float(known.usd) if known is not None and known.usd else None
    return SpotForecast(
        usd=float(row.usd),
        days=max(0, (today - date.fromisoformat(row.as_of)).days),
        alike=1.0 if row.zone and key.zone in {"", row.zone} else process.zones_alike,
        long_run=process.dollars.get(key.name) if most is None else most * process.share_of(key.name),
        most=most,
        traded=selector.market(row, key.name, key.region) is Market.OPEN,
    )


def ec2_key(place: Place) -> Key:
    """The catalog's key of EC2's spot price at a place."""
    return Key(SPOT, place.instance_type, place.region, place.az_id or "")


def forecast_at(place: Place, catalog: Catalog, today: date) -> SpotForecast | None:
    """The forecast at a place; None without a row, and for a service whose price does not follow EC2's."""
    if target_of(place.target).managed_spot:
        return None
    key = ec2_key(place)
    row = catalog.selector.row(key)
    return None if row is None or not row.usd else spot_forecast(row, key, catalog.selector, today)


def forecast_price(price: Price, forecast: SpotForecast) -> Price:
    """The median of the price today, with the newest price in its note."""
    middle = _usd(forecast.middle)
    if middle == price.usd or not forecast.days:
        return price
    note = (
        f"forecast from ${price.usd:f} of {price.as_of}, {number_of(forecast.days, 'day')} old: spot of this type"
        f" returns to ${forecast.long_run or 0.0:.2f}"
    )
    return replace(price, usd=middle, basis=Basis.DERIVED, note=f"{note}; {price.note}" if price.note else note)


class SpotPrice(NamedTuple):
    """The price of an instance-hour while the job runs: its distribution, its percentiles, its assumptions."""

    random: RandomPrice
    usd: UsdRange
    assumptions: tuple[Assumption, ...]


def random_price(
    place: Place, usd: float, forecast: SpotForecast | None, hours: float, *, sure: bool = False
) -> RandomPrice:
    """The distribution of a spot price while a job runs.

    Args:
        place: the place.
        usd: the median of one instance-hour today.
        forecast: of EC2's price there; None for a service of its own.
        hours: of the job.
        sure: the price is the user's own.
    """
    if sure:
        return RandomPrice(usd)
    if target_of(place.target).managed_spot:
        return RandomPrice(usd, MANAGED_SCALE, usd * MANAGED_LEAST, usd * MANAGED_MOST)
    return forecast.random(usd, hours) if forecast is not None else RandomPrice(usd, load_spot_process().scale)


def spot_price(place: Place, price: Price, random: RandomPrice, forecast: SpotForecast | None) -> SpotPrice:
    """The percentiles of a spot price with their assumptions; a certain price has no assumption."""
    low, high = (_usd(random.at(probability)) for probability in (LOW, HIGH))
    usd = UsdRange(low=min(low, price.usd), mid=price.usd, high=max(high, price.usd))
    if not random.scale:
        return SpotPrice(random, usd, ())
    managed = target_of(place.target).managed_spot
    name, source = (
        ("price of managed spot", _MANAGED_SOURCE)
        if managed
        else ("spot price while the job runs", _source(price, forecast))
    )
    line = Assumption(
        name=name, value=f"{usd.low:.2f} to {usd.high:.2f}", unit="dollars an instance-hour", source=source
    )
    return SpotPrice(random, usd, (line,))


def _source(price: Price, forecast: SpotForecast | None) -> str:
    process = load_spot_process()
    if forecast is None:
        return f"${price.usd:.2f} of {price.as_of}; spread of all types, fitted on {process.fitted_on}"
    zone = "" if forecast.alike == 1.0 else ", the row names no zone"
    return (
        f"10th and 90th percentile; newest price of {price.as_of}{zone}; half of its distance from the type's long run"
        f" is left after {process.half_life_days:.0f} days, at most on demand (fitted on {process.fitted_on})"
    )


def _usd(value: float) -> Decimal:
    return Decimal(repr(value)).quantize(CENT_FRACTION)
