"""Reasons that make a candidate impossible at any price: error findings, which its gate refuses with exit code 5."""

from collections.abc import Iterator

from launcher.model.enums import PREPAID, CheckpointMode, PurchaseOption
from launcher.model.finding import Finding, error
from launcher.model.money import Range
from launcher.model.plan import Place
from launcher.model.work import Work
from launcher.planning.disks import disk_findings
from launcher.pricing.blocks import BLOCK_LOST_H, PLAN_LOST_H, bought_capacity, purchased_capacity
from launcher.pricing.chances import chance_above
from launcher.pricing.compute import Charge
from launcher.pricing.context import PricingContext
from launcher.pricing.job_hours import FOREVER_H
from launcher.targets.registry import training_targets

MAY_BE_LATE = "may-miss-deadline"
"""The code of the warning that the slow estimate misses the deadline."""


def refusals(place: Place, work: Work, cost: Charge | None, context: PricingContext) -> tuple[Finding, ...]:
    """Every reason against one candidate, or none."""
    hours = cost.hours if cost is not None else work.hours.mid
    return (
        *_target(place, context),
        *disk_findings(context.request, place, context.catalog.instance_types[place.instance_type]),
        *_spot(place, hours, context),
        *_deadline(hours, context),
        *_window(place, hours, context),
    )


def _target(place: Place, context: PricingContext) -> Iterator[Finding]:
    if place.target not in training_targets():
        allowed = ", ".join(training_targets())
        message = f"{place.target} is priced and not deployed by this version, which deploys {allowed}"
        yield error("target-not-deployed", "target.kind", message)
    elif place.target not in context.catalog.instance_types[place.instance_type].targets:
        message = f"{place.instance_type} is priced and cannot be deployed on {place.target}"
        yield error("type-not-deployed", "target.instance_type", message)


def _spot(place: Place, hours: float, context: PricingContext) -> Iterator[Finding]:
    if place.option is not PurchaseOption.SPOT:
        return
    never = "never ends" if hours >= FOREVER_H else f"is expected to take {hours:,.1f} h"
    if context.request.checkpoint.mode is CheckpointMode.NONE and context.request.workload.train is not None:
        yield error(
            "spot-without-checkpoints",
            "checkpoint.mode",
            f"spot with checkpoint.mode none: 1 interruption loses all progress, and the job {never}",
            "set checkpoint.mode to agent or own, or purchase.option to on-demand",
        )
    elif hours >= FOREVER_H:
        yield error(
            "never-done",
            "checkpoint.interval",
            "it is interrupted more often than it saves, so it never ends",
            "set checkpoint.interval to auto, or another purchase.option",
        )


def _deadline(hours: float, context: PricingContext) -> Iterator[Finding]:
    """A refusal of a job that takes longer than the deadline allows."""
    deadline_h = context.request.purchase.deadline_h
    if deadline_h is not None and hours > deadline_h:
        message = f"takes {hours:,.1f} h, the deadline is {deadline_h:g} h"
        yield error("past-deadline", "purchase.deadline_h", message, "allow more nodes or more hours")


def _window(place: Place, hours: float, context: PricingContext) -> Iterator[Finding]:
    """A refusal of a job that does not fit the window of purchased capacity."""
    known = purchased_capacity(context.request.purchase, place.option, place.nodes, context.now)
    if known is None or known.usable_h is None:
        return
    path = "purchase.training_plan" if place.option is PurchaseOption.TRAINING_PLAN else "purchase.reservation"
    lost = PLAN_LOST_H if place.option is PurchaseOption.TRAINING_PLAN else BLOCK_LOST_H
    if known.over:
        yield error("window-over", f"{path}.ends_at", "its window has ended", "name one that has not ended")
    elif hours > known.usable_h:
        limit = f"its window leaves {known.usable_h:,.1f} h: instances go {lost * 60:g} minutes before its end"
        message = f"takes {hours:,.1f} h, and {limit}"
        yield error("past-window", f"{path}.ends_at", message, "allow more nodes, or a longer window")


def may_be_late(hours: Range, place: Place, context: PricingContext) -> Iterator[tuple[str, str, str]]:
    """Code, path and message of limits that the slow estimate or a wait may break and the middle one does not."""
    deadline_h = context.request.purchase.deadline_h
    if deadline_h is not None and hours.mid <= deadline_h < hours.high:
        message = (
            f"a {chance_above(hours, deadline_h):.0%} risk of missing the deadline of {deadline_h:g} h: the job takes"
            f" {hours.mid:,.1f} h ({hours.low:,.1f} to {hours.high:,.1f})"
        )
        yield MAY_BE_LATE, "purchase.deadline_h", message
    whole = place.option in PREPAID
    if deadline_h is not None and whole and bought_capacity(context.request.purchase, place.option) is None:
        message = f"the deadline of {deadline_h:g} h is compared with the job only: the wait for an offering is unknown"
        yield "lead-time", "purchase.deadline_h", message
    known = purchased_capacity(context.request.purchase, place.option, place.nodes, context.now)
    if known is not None and known.usable_h is not None and hours.mid <= known.usable_h < hours.high:
        purchased = bought_capacity(context.request.purchase, place.option)
        name = getattr(purchased, "id", getattr(purchased, "arn", ""))
        yield (
            "may-outlast-window",
            "purchase",
            f"may take {hours.high:,.1f} h, and {name} leaves {known.usable_h:,.1f} h",
        )
