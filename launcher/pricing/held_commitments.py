"""Commitments of several plans together: plans whose runs fit into one commitment share it, used or not."""

from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from launcher.model.enums import PurchaseOption, SavingsPlanKind
from launcher.model.money import Price, sum_usd
from launcher.model.quote import Quote
from launcher.model.record import record
from launcher.model.units import HOURS_PER_MONTH
from launcher.pricing.compute import whole_sets
from launcher.pricing.training_candidate import UNUSED


@record
class HeldCommitment:
    """Instances under commitment, for all hours of a month; `utilisation` is the part that the plans use."""

    instance_type: str
    region: str
    purchase_option: PurchaseOption
    plan_kind: SavingsPlanKind | None
    term_years: int
    instances: int
    usd_per_month: Decimal
    utilisation: float
    plans: tuple[str, ...]


def held_commitments(quotes: Iterable[Quote]) -> tuple[HeldCommitment, ...]:
    """The new commitments of several quotes, merged.

    Plans with the same type, place and terms share one commitment: enough sets of the largest job's nodes for all.
    """
    by_key: dict[tuple[Any, ...], list[Quote]] = {}
    for quoted in quotes:
        if quoted.commitment_usd is not None and isinstance(quoted.price, Price):
            place, usd = quoted.plan.place, quoted.price.usd
            key = (place.instance_type, place.region, place.option, place.plan_kind, place.term_years, usd)
            by_key.setdefault(key, []).append(quoted)
    return tuple(_commitment(key[-1], sharers) for key, sharers in by_key.items())


def _commitment(usd_per_hour: Decimal, sharers: list[Quote]) -> HeldCommitment:
    place = sharers[0].plan.place
    used = sum(used_hours(quoted) * _times_a_month(quoted) for quoted in sharers)
    most = max(quoted.plan.place.nodes for quoted in sharers)
    instances = most * whole_sets(used / most)
    return HeldCommitment(
        instance_type=place.instance_type,
        region=place.region,
        purchase_option=place.option,
        plan_kind=place.plan_kind,
        term_years=place.term_years or 1,
        instances=instances,
        usd_per_month=usd_per_hour * instances * Decimal(repr(HOURS_PER_MONTH)),
        utilisation=min(1.0, used / (instances * HOURS_PER_MONTH)),
        plans=tuple(quoted.plan.name for quoted in sharers),
    )


def _times_a_month(quoted: Quote) -> float:
    """How often a month the quoted hours are used: once for serving and for a cluster without a job."""
    train = quoted.plan.request.workload.train
    return 1.0 if train is None else float(train.runs_per_month)


def used_hours(quoted: Quote) -> float:
    """Instance-hours of one run, or of a month of serving, without hours that no job uses."""
    return sum(
        component.quantity
        for component in quoted.components
        if component.group == "compute" and component.name != UNUSED
    )


def other_usd(quoted: Quote) -> Decimal:
    """The middle total without compute."""
    return sum_usd(component.usd for component in quoted.components if component.group != "compute")
