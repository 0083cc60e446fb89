"""Capacity that is available now, for sale or reserved, and the total to finish with it."""

from datetime import datetime
from decimal import Decimal
from enum import StrEnum

from launcher.model.money import UsdRange
from launcher.model.record import record


class OfferKind(StrEnum):
    """Where capacity comes from; the first three are bought, the last two are taken as they come."""

    CAPACITY_BLOCK = "capacity-block"
    EXTENSION = "capacity-block-extension"
    TRAINING_PLAN = "training-plan"
    RESERVATION = "reservation"
    ON_DEMAND = "on-demand"
    SPOT = "spot"


NOT_YET = "cr-00000000000000000"
"""Stands for the id that the purchase of a block will give."""
OFFERED_PLAN = "training-plan/offered"
"""How the ARN ends that stands for that of a training plan on offer."""
BOUGHT = (OfferKind.CAPACITY_BLOCK, OfferKind.EXTENSION, OfferKind.TRAINING_PLAN)
"""Kinds that are paid before they are there, and never paid back."""


@record
class CapacityWish:
    """What is asked for: an EC2 type, how many, for how many hours, not before `earliest` and over by `latest`."""

    instance_type: str
    count: int
    hours: int
    earliest: datetime
    latest: datetime

    @property
    def words(self) -> str:
        """As a person says it."""
        return f"{self.count} x {self.instance_type} for {self.hours} h"


@record
class CapacityOffer:
    """Some instances of one type in one place, as AWS offers or holds them.

    `id` is the offering's or the reservation's, None for what has none. `starts_at` and `ends_at` bound what is bought
    or held; None for what can be asked for at any time. `fee_usd` is paid up front. `score` is the spot placement
    score, 1 to 10, of `pool`: the types that were asked for together. `reservation` is what an extension makes longer.
    """

    kind: OfferKind
    id: str | None
    region: str
    az_id: str | None
    instance_type: str
    count: int
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    fee_usd: Decimal | None = None
    score: int | None = None
    pool: tuple[str, ...] = ()
    reservation: str | None = None

    @property
    def hours(self) -> float | None:
        """Its length; None where it has no end."""
        if self.starts_at is None or self.ends_at is None:
            return None
        return (self.ends_at - self.starts_at).total_seconds() / 3600


@record
class JudgedOffer:
    """An offer with what finishing the job there takes: dollars in all, None with the reason in `note`, and the wait.

    `lead_time_h` is from now to its start, 0 where it can begin at once. `purchase_command` buys it.
    """

    offer: CapacityOffer
    usd: UsdRange | None
    lead_time_h: float
    purchase_command: str | None
    note: str = ""
