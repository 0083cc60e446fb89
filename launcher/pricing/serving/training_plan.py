"""A month of an endpoint on a training plan: the plan's instances and hours are paid, whether or not requests come."""

from collections.abc import Iterator
from typing import NamedTuple

from launcher.model.enums import PurchaseOption
from launcher.model.finding import Finding, error, warning
from launcher.model.money import Assumption
from launcher.model.plan import Place
from launcher.model.units import HOURS_PER_MONTH, number_of
from launcher.pricing.blocks import begins, purchased_capacity, until
from launcher.pricing.context import PricingContext
from launcher.pricing.offers import Offer, with_fee

PATH = "purchase.training_plan"


class PlanMonth(NamedTuple):
    """The part of a training plan that lies in one month.

    `window_h` is the length of the plan, None if the plan file does not give it: then the month is charged the whole
    fee, or all of its hours at the rate.
    """

    instances: int
    hours: float
    window_h: float | None
    over: bool

    @property
    def instance_hours(self) -> float:
        """Paid instance-hours of the month."""
        return self.instances * self.hours

    @property
    def share(self) -> float:
        """The share of the month in which the endpoint answers."""
        return self.hours / HOURS_PER_MONTH


def plan_month(place: Place, context: PricingContext) -> PlanMonth | None:
    """The part of the training plan in a month; None for another purchase option."""
    if place.option is not PurchaseOption.TRAINING_PLAN:
        return None
    known = purchased_capacity(context.request.purchase, place.option, place.nodes, context.now)
    if known is None:
        return PlanMonth(place.nodes, HOURS_PER_MONTH, None, over=False)
    window_h = known.window_h
    hours = HOURS_PER_MONTH if window_h is None else min(window_h, HOURS_PER_MONTH)
    return PlanMonth(known.instances, hours, window_h, over=known.over)


def planned_offer(priced: Offer, place: Place, context: PricingContext) -> Offer:
    """The offer of a place; on a training plan with a known fee, at the fee over the plan's instance-hours."""
    month = plan_month(place, context)
    if month is None:
        return priced
    hours = month.instances * (month.hours if month.window_h is None else month.window_h)
    return with_fee(priced, place, context.request, hours, context.rules.today)


def plan_findings(place: Place, context: PricingContext) -> Iterator[Finding]:
    """Findings for the window of the training plan: over, not begun, or unknown."""
    month, bought = plan_month(place, context), context.request.purchase.training_plan
    if month is None or bought is None:
        return
    if month.over:
        yield error("window-over", f"{PATH}.ends_at", "its window has ended", "name one that has not ended")
    starts_at = begins(context.request.purchase, place.option, context.now)
    if starts_at is not None:
        message = f"begins {until(starts_at, context.now)}: SageMaker creates no endpoint on a plan that is not Active"
        yield warning("training-plan-begins", f"{PATH}.starts_at", message, "deploy when it has begun")
    if bought.fee_usd is not None and month.window_h is None:
        message = "the length of the plan is not given, so the month is charged the whole fee"
        yield warning("training-plan-window-open", f"{PATH}.ends_at", message, "give starts_at and ends_at")


def plan_lines(place: Place, context: PricingContext) -> tuple[Assumption, ...]:
    """The line of a quote about the hours of the training plan; empty for another purchase option."""
    month = plan_month(place, context)
    if month is None:
        return ()
    length = "length not given" if month.window_h is None else f"of a plan of {month.window_h:g} h"
    source = f"{length}; then SageMaker stops the endpoint's answers; {number_of(month.instances, 'instance')} prepaid"
    return (Assumption(name="training plan in a month", value=f"{month.hours:g}", unit="hours", source=source),)
