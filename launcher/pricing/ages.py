"""How old a price may be before it is not trusted."""

from datetime import date, datetime, time, timedelta
from typing import NamedTuple

from launcher.model.announced_end import AnnouncedEnd
from launcher.model.enums import Basis, PurchaseOption
from launcher.model.money import Price, Unpriced
from launcher.model.plan import Place
from launcher.model.target import target_of

ALLOWED_DAYS = {
    PurchaseOption.ON_DEMAND: 180,
    PurchaseOption.RESERVED: 180,
    PurchaseOption.SAVINGS_PLAN: 180,
    PurchaseOption.TRAINING_PLAN: 180,
    PurchaseOption.BEDROCK: 180,
    PurchaseOption.CAPACITY_BLOCK: 14,
    PurchaseOption.SPOT: 2,
}
"""Days a price holds: list prices change a few times a year, Capacity Block rates by the quarter and without notice,
spot by the hour. A policy of this project, stated in its contract."""

ALLOWED_BILL_DAYS = 365
"""Days a price of the rest of the bill holds before it is warned of: most have not moved in years."""
ALLOWED_BAND_DAYS = 180
"""Days a band of the Spot Advisor holds before it is warned of; AWS has gone months without a new one."""


class Age(NamedTuple):
    """How old a price is and how old it may be, in days; the days are negative for a price of a day to come."""

    days: int
    allowed: int

    @property
    def too_old(self) -> bool:
        """Whether the price is refused."""
        return self.days > self.allowed or self.to_come

    @property
    def to_come(self) -> bool:
        """Whether the price is of a day to come: a clock is wrong. A day is between time zones."""
        return self.days < -1

    @property
    def worth_a_warning(self) -> bool:
        """Whether half of its time is over; the price of today is never old."""
        return self.days > 0 and self.days * 2 >= self.allowed


def rests_on(place: Place) -> PurchaseOption:
    """Whose price a place's is made of: of managed spot that of on demand, else its own way of buying."""
    managed = place.option is PurchaseOption.SPOT and target_of(place.target).managed_spot
    return PurchaseOption.ON_DEMAND if managed else place.option


def age(price: Price, option: PurchaseOption, today: date, most_days: int | None = None) -> Age:
    """The age of a price; `most_days` replaces the allowed age. A user's own price does not age."""
    allowed = ALLOWED_DAYS[option] if most_days is None else most_days
    days = 0 if price.basis is Basis.USER else (today - price.as_of).days
    return Age(days=days, allowed=allowed)


def expiry(
    price: Price | Unpriced, option: PurchaseOption, now: datetime, ends: tuple[AnnouncedEnd, ...] = ()
) -> datetime | None:
    """When a quote on this price stops being good: when the price gets too old, and not before now.

    The first of the announced ends of what the plan rests on (`ends`) that is to come is earlier where it is nearer.
    None without a price.
    """
    if isinstance(price, Unpriced):
        return None
    known_on = now.date() if price.basis is Basis.USER else price.as_of
    last = datetime.combine(known_on, now.timetz()) + timedelta(days=ALLOWED_DAYS[option])
    to_come = (datetime.combine(end.ends, time(), now.tzinfo) for end in ends)
    return max(now, min((last, *(end for end in to_come if end > now))))
