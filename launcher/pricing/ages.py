"""The maximum age of a price that a quote accepts."""

from datetime import date, datetime, time, timedelta
from typing import NamedTuple

from launcher.model.announced_end import AnnouncedEnd
from launcher.model.enums import Basis, PurchaseOption
from launcher.model.money import Price, Unpriced
from launcher.model.plan import Place
from launcher.targets.registry import target_of

ALLOWED_DAYS = {
    PurchaseOption.ON_DEMAND: 180,
    PurchaseOption.RESERVED: 180,
    PurchaseOption.SAVINGS_PLAN: 180,
    PurchaseOption.TRAINING_PLAN: 180,
    PurchaseOption.BEDROCK: 180,
    PurchaseOption.CAPACITY_BLOCK: 14,
    PurchaseOption.SPOT: 2,
}
"""Days a price stays valid: list prices change a few times a year, Capacity Block rates by the quarter and without
notice, spot by the hour. A policy of this project, stated in its contract."""

ALLOWED_BILL_DAYS = 365
"""Days before Slipway warns of a non-compute price: most have not moved in years."""
ALLOWED_BAND_DAYS = 180
"""Days before Slipway warns of a Spot Advisor band; AWS has gone months without a new one."""


class Age(NamedTuple):
    """The age of a price and its allowed age, in days; the age is negative if the price has a future date."""

    days: int
    allowed: int

    @property
    def too_old(self) -> bool:
        """Whether the price is refused."""
        return self.days > self.allowed or self.to_come

    @property
    def to_come(self) -> bool:
        """Whether the price has a future date, so a clock is wrong. Time zones explain one day of difference."""
        return self.days < -1

    @property
    def worth_a_warning(self) -> bool:
        """Whether half of the allowed age has passed; today's price is never old."""
        return self.days > 0 and self.days * 2 >= self.allowed


def rests_on(place: Place) -> PurchaseOption:
    """The purchase option whose price the place uses: on demand for managed spot, else the place's own option."""
    managed = place.option is PurchaseOption.SPOT and target_of(place.target).managed_spot
    return PurchaseOption.ON_DEMAND if managed else place.option


def age(price: Price, option: PurchaseOption, today: date, most_days: int | None = None) -> Age:
    """The age of a price; `most_days` replaces the allowed age. A price that the user set does not age."""
    return days_age(today if price.basis is Basis.USER else price.as_of, option, today, most_days)


def days_age(as_of: date | str, option: PurchaseOption, today: date, most_days: int | None = None) -> Age:
    """The age of a price of a day, a date or its ISO form; `most_days` replaces the allowed age."""
    day = date.fromisoformat(as_of) if isinstance(as_of, str) else as_of
    return Age(days=(today - day).days, allowed=ALLOWED_DAYS[option] if most_days is None else most_days)


def expiry(
    price: Price | Unpriced, option: PurchaseOption, now: datetime, ends: tuple[AnnouncedEnd, ...] = ()
) -> datetime | None:
    """The moment when a quote on this price expires: when the price gets too old, and never before now.

    The first future date among the announced ends of the plan's components (`ends`) counts if it is earlier.
    None without a price.
    """
    if isinstance(price, Unpriced):
        return None
    known_on = now.date() if price.basis is Basis.USER else price.as_of
    last = datetime.combine(known_on, now.timetz()) + timedelta(days=ALLOWED_DAYS[option])
    to_come = (datetime.combine(end.ends, time(), now.tzinfo) for end in ends)
    return max(now, min((last, *(end for end in to_come if end > now))))
