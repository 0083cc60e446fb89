"""The effect of announced ends on a quote: findings from a year before, and a verdict that is valid until then."""

from collections.abc import Iterable, Iterator
from datetime import date, timedelta
from functools import lru_cache

from launcher.catalog.pinned_images import pinned_image
from launcher.model.announced_end import AnnouncedEnd
from launcher.model.finding import Finding, info, warning
from launcher.model.plan import Place
from launcher.model.units import HOURS_PER_MONTH
from launcher.pricing.context import PricingContext
from launcher.targets.registry import target_of

CHIP_KEYS = ("instance-type/", "stack/")
"""The beginnings of the keys of what one accelerator family needs, and the other does not."""


def job_software(place: Place, context: PricingContext) -> Iterator[str]:
    """The keys of the components that a job needs; on an existing cluster only the instance type and the job's own."""
    yield f"instance-type/{place.instance_type}"
    request, target = context.request, target_of(place.target)
    image = request.run.image or ""
    if request.workload.train is not None:
        facts = context.catalog.instance_types[place.instance_type]
        if facts.chip is not None and facts.chip.training_stack is not None:
            yield f"stack/{facts.chip.training_stack.name}"
        if target.image_service:
            image = image or pinned_image(facts, target.image_service) or ""
    own_cluster = context.bill.own_cluster
    for key in target.software:
        if own_cluster or "{image}" in key:
            yield key.format(os=request.target.os.value, image=image.rpartition("/")[2])


def job_ends(place: Place, context: PricingContext) -> tuple[AnnouncedEnd, ...]:
    """The announced ends that concern a job, computed once for each target and instance type."""
    key = (place.target, place.instance_type)
    if key not in context.ends:
        context.ends[key] = near_ends(job_software(place, context), context)
    return context.ends[key]


def near_ends(keys: Iterable[str | AnnouncedEnd], context: PricingContext) -> tuple[AnnouncedEnd, ...]:
    """The announced ends that concern a candidate, past or within a year, the nearest first."""
    known = context.catalog.announced_ends
    ends = {end for key in keys if (end := known.get(key) if isinstance(key, str) else key) is not None}
    return tuple(sorted((end for end in ends if end.near(context.rules.today)), key=lambda end: (end.ends, end.key)))


def end_findings(ends: tuple[AnnouncedEnd, ...], context: PricingContext) -> tuple[Finding, ...]:
    """A finding for each end: a warning if the plan's runs last until then, or if the component is withdrawn."""
    train, today = context.request.workload.train, context.rules.today
    months = 0.0 if train is None else train.runs / train.runs_per_month
    last = date.max if train is None else today + timedelta(hours=min(months, 120.0) * HOURS_PER_MONTH)
    return _end_findings(ends, today, last)


@lru_cache(maxsize=256)
def _end_findings(ends: tuple[AnnouncedEnd, ...], today: date, last: date) -> tuple[Finding, ...]:
    """The findings of ends, computed once for rows with equal ends; up to `last`, they are warnings."""
    return tuple(
        (warning if end.withdrawn or end.ends <= last else info)(
            "announced-end", end.path, end.sentence(today), end.hint
        )
        for end in ends
    )


def until(text: str, ends: Iterable[AnnouncedEnd]) -> str:
    """A verdict with the date of the first withdrawal appended."""
    end = next((end for end in ends if end.withdrawn), None)
    return text if end is None else f"{text.removesuffix('.')}, until {end.ends}, when {end.then}."


def end_flips(ends: Iterable[AnnouncedEnd], today: date, *, chips_only: bool) -> tuple[str, ...]:
    """The dates from which a verdict's costs or support change, for the list of changes that would flip the verdict.

    Past ends are warnings. `chips_only` leaves out schedulers, images and the like, which GPUs and Trainium share.
    """
    ahead = (end for end in ends if end.ends > today and not end.withdrawn)
    mattering = (end for end in ahead if not chips_only or end.key.startswith(CHIP_KEYS))
    return tuple(f"{end.ends}: {end.what} ends, and {end.then}" for end in mattering)
