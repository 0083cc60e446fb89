"""How a job that exceeds its offering finishes: an extension by days, or on demand from its checkpoint."""

import math
from decimal import Decimal
from typing import NamedTuple

from launcher.model.enums import CheckpointMode, PurchaseOption
from launcher.model.money import Assumption, Price, Unpriced
from launcher.model.plan import Place
from launcher.model.request import PlanRequest
from launcher.model.target import target_of
from launcher.model.work import Work
from launcher.pricing.blocks import HOURS_A_DAY, LONGEST_DAYS, extension_h
from launcher.pricing.chances import expected_above
from launcher.pricing.compute import Charge, around_hours


class Overrun(NamedTuple):
    """Instance-hours at a price, expected and at the job's high estimate; `other_usd` is the cost of the other way.

    `name` is the name of its bill line, `text` describes how the job finishes.
    """

    name: str
    text: str
    expected_h: float
    max_h: float
    price: Price
    other_usd: Decimal | None = None

    @property
    def usd(self) -> Decimal:
        """Expected dollars."""
        return self.price.usd * Decimal(repr(self.expected_h))

    @property
    def max_usd(self) -> Decimal:
        """Dollars at the high estimate."""
        return self.price.usd * Decimal(repr(self.max_h))

    @property
    def line(self) -> Assumption:
        """A comparison of both ways, as a line of the quote."""
        other = "is not possible, or has no price" if self.other_usd is None else f"${self.other_usd:,.2f}"
        return Assumption(
            name="a job that does not fit is",
            value=self.text,
            unit="",
            source=f"expected ${self.usd:,.2f}, the other way {other}: extensions are whole days at the fee's rate,"
            " on demand the remaining hours, with a start-up and an idle tail",
        )


def overrun(
    place: Place, work: Work, request: PlanRequest, *, cost: Charge, price: Price, on_demand: Price | Unpriced
) -> Overrun | None:
    """The cheaper way by expected dollars; None for a window that is assumed to be long enough.

    Args:
        place: the place.
        work: the hours of the job.
        request: the plan.
        cost: the charge of the offering.
        price: price of an instance-hour of the offering.
        on_demand: price of the same instances on demand.
    """
    if math.isinf(cost.usable_h):
        return None
    job, usable_h = work.hours, cost.usable_h
    days = max(0, math.ceil((job.high - usable_h) / HOURS_A_DAY))
    extended = Overrun(
        name="extension, where it does not fit",
        text="extended by days",
        expected_h=extension_h(job, usable_h) * cost.instances if cost.outlasts else 0.0,
        max_h=days * HOURS_A_DAY * cost.instances,
        price=price,
    )
    resumes = request.workload.train is not None and request.checkpoint.mode is not CheckpointMode.NONE
    if isinstance(on_demand, Unpriced) or not resumes or PurchaseOption.ON_DEMAND not in target_of(place.target).trains:
        return extended
    elsewhere = place.on_demand
    expected_h, most_h = expected_above(job, usable_h), max(0.0, job.high - usable_h)
    around_h = around_hours(elsewhere, work, request, expected_h)
    finished = Overrun(
        name="finished on demand, where it does not fit",
        text="finished on demand",
        expected_h=(expected_h + cost.outlasts * around_h) * place.nodes if cost.outlasts else 0.0,
        max_h=(most_h + around_hours(elsewhere, work, request, most_h)) * place.nodes if most_h else 0.0,
        price=on_demand,
    )
    if cost.billed_hours / HOURS_A_DAY + days > LONGEST_DAYS:
        return finished
    best, other = sorted((extended, finished), key=lambda way: (way.usd, way.max_usd))
    return best._replace(other_usd=other.usd)
