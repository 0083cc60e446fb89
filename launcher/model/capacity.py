"""Capacity that is available now, for sale or reserved, and the total cost to finish with it."""

from datetime import datetime
from decimal import Decimal
from enum import StrEnum

from launcher.model.money import UsdRange
from launcher.model.record import record

NOT_YET = "cr-00000000000000000"
"""Placeholder for the id that the purchase of a block will return."""
OFFERED_PLAN = "training-plan/offered"
"""Suffix of the placeholder ARN of an offered training plan."""


class OfferKind(StrEnum):
    """The source of capacity; the first three are bought, a reservation is held, the last two have no guarantee."""

    CAPACITY_BLOCK = "capacity-block"
    EXTENSION = "capacity-block-extension"
    TRAINING_PLAN = "training-plan"
    RESERVATION = "reservation"
    ON_DEMAND = "on-demand"
    SPOT = "spot"


BOUGHT = (OfferKind.CAPACITY_BLOCK, OfferKind.EXTENSION, OfferKind.TRAINING_PLAN)
"""Kinds that are paid before they are available, without refund."""


@record
class CapacityRequest:
    """The requested capacity: an EC2 type, count and hours, starting at `earliest` or later and over by `latest`."""

    instance_type: str
    count: int
    hours: int
    earliest: datetime
    latest: datetime

    @property
    def text(self) -> str:
        """The request in words."""
        return f"{self.count} x {self.instance_type} for {self.hours} h"


@record
class CapacityOffer:
    """Instances of one type in one place that AWS offers or holds."""

    kind: OfferKind
    # The offering's or the reservation's; None without one.
    id: str | None
    region: str
    az_id: str | None
    instance_type: str
    count: int
    # The start of purchased or held capacity; None for capacity that can be requested at any time.
    starts_at: datetime | None = None
    # Its end, by the same rule.
    ends_at: datetime | None = None
    # Paid up front.
    fee_usd: Decimal | None = None
    # The spot placement score, 1 to 10, of `pool`.
    score: int | None = None
    # The types that were requested together.
    pool: tuple[str, ...] = ()
    # The reservation that the offer would extend.
    reservation: str | None = None

    @property
    def hours(self) -> float | None:
        """Its length in hours; None without an end."""
        if self.starts_at is None or self.ends_at is None:
            return None
        return (self.ends_at - self.starts_at).total_seconds() / 3600


@record
class JudgedOffer:
    """An offer with the total cost of the job there, None with the reason in `note`, and the wait.

    `lead_time_h` is the time until its start, 0 if it can start immediately. `purchase_command` buys the offer.
    """

    offer: CapacityOffer
    usd: UsdRange | None
    lead_time_h: float
    purchase_command: str | None
    note: str = ""
