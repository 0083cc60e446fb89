"""How a job that exceeds its offering finishes: an extension by days, or on demand from its checkpoint."""

import math
from dataclasses import replace
from decimal import Decimal
from functools import cached_property

from launcher.model.enums import CheckpointMode, PurchaseOption
from launcher.model.money import Assumption, Price, Unpriced
from launcher.model.plan import Place
from launcher.model.record import record
from launcher.model.request import PlanRequest
from launcher.model.work import Work
from launcher.pricing.blocks import HOURS_A_DAY, LONGEST_DAYS
from launcher.pricing.compute import Charge, start_hours
from launcher.pricing.idle_tail import tail_hours
from launcher.pricing.joint import HIGH, Outcomes
from launcher.targets.registry import target_of

POINTS = 200
"""Points of the job's hours for the expected overrun."""


@record(slots=False)
class Overrun:
    """A way to finish a job that outlasts its offering, at a price of an instance-hour."""

    # The name of its bill line.
    name: str
    # How the job finishes.
    text: str
    job: Outcomes
    # Beyond it each hour costs `instances` instance-hours.
    usable_h: float
    instances: int
    # In whole steps of so many hours; 0: no steps.
    step_h: float
    # More hours, once.
    start_and_tail_h: float
    price: Price
    # The other way: a job that outlasts its offering takes the one that costs less for what is left of it.
    other: "Overrun | None" = None

    def hours_at(self, job_h: float) -> float:
        """Instance-hours in addition to the offering if the job takes so long and finishes in this way."""
        more_h = job_h - self.usable_h
        if more_h <= 0.0:
            return 0.0
        if self.step_h:
            more_h = math.ceil(more_h / self.step_h) * self.step_h
        return (more_h + self.start_and_tail_h) * self.instances

    def cheaper_at(self, job_h: float) -> "Overrun":
        """The way that costs less if the job takes so long."""
        other = self.other
        return self if other is None or self._alone_at(job_h) <= other._alone_at(job_h) else other  # noqa: SLF001 - of its class

    def usd_at(self, job_h: float) -> Decimal:
        """Dollars in addition to the offering's fee if the job takes so long."""
        overrun_option = self.cheaper_at(job_h)
        return overrun_option.price.usd * Decimal(repr(overrun_option.hours_at(job_h)))

    def _alone_at(self, job_h: float) -> float:
        return float(self.price.usd) * self.hours_at(job_h)

    @cached_property
    def outcomes(self) -> list[float]:
        """Dollars of this way at equally likely lengths of the job."""
        usd = float(self.price.usd)
        return [usd * self.hours_at(value) for value in self.job.coarse(POINTS)]

    @property
    def alone_usd(self) -> float:
        """Expected dollars of this way for every length of the job."""
        return sum(self.outcomes) / POINTS

    @cached_property
    def usd(self) -> Decimal:
        """Expected dollars of the cheaper way for each length of the job."""
        cheaper = self.outcomes if self.other is None else map(min, self.outcomes, self.other.outcomes)
        return Decimal(repr(sum(cheaper) / POINTS))

    @property
    def line(self) -> Assumption:
        """A comparison of both ways, as a line of the quote."""
        other = "is not possible, or has no price" if self.other is None else f"${self.other.alone_usd:,.2f}"
        return Assumption(
            name="a job that does not fit is",
            value=self.text,
            unit="",
            source=f"expected ${self.alone_usd:,.2f}, the other way {other}, the cheaper one for what is left"
            f" ${self.usd:,.2f}: extensions are whole days at the fee's rate, on demand the remaining hours, with a"
            " start-up and an idle tail",
        )


def overrun(
    place: Place, work: Work, request: PlanRequest, *, cost: Charge, price: Price, on_demand: Price | Unpriced
) -> Overrun:
    """Both ways, the cheaper one by expected dollars first.

    Args:
        place: the place.
        work: the hours of the job.
        request: the plan.
        cost: the charge of the offering, with the hours that it leaves for the job.
        price: price of an instance-hour of the offering.
        on_demand: price of the same instances on demand.
    """
    job, usable_h = cost.wall, cost.usable_h
    extended = Overrun(
        name="extension, where it does not fit",
        text="extended by days",
        job=job,
        usable_h=usable_h,
        instances=cost.instances,
        step_h=HOURS_A_DAY,
        start_and_tail_h=0.0,
        price=price,
    )
    resumes = request.workload.train is not None and request.checkpoint.mode is not CheckpointMode.NONE
    if isinstance(on_demand, Unpriced) or not resumes or PurchaseOption.ON_DEMAND not in target_of(place.target).trains:
        return extended
    elsewhere = place.on_demand
    start_h, _ = start_hours(elsewhere, work)
    finished = Overrun(
        name="finished on demand, where it does not fit",
        text="finished on demand",
        job=job,
        usable_h=usable_h,
        instances=place.nodes,
        step_h=0.0,
        start_and_tail_h=start_h + tail_hours(elsewhere, request, start_h),
        price=on_demand,
    )
    if cost.billed_hours + extended.hours_at(job.at(HIGH)) / cost.instances > LONGEST_DAYS * HOURS_A_DAY:
        return finished
    overrun_options = (extended, finished)
    best, other = sorted(
        overrun_options, key=lambda overrun_option: (overrun_option.alone_usd, overrun_option.usd_at(job.at(HIGH)))
    )
    return replace(best, other=other)
