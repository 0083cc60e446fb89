"""The candidates of a serving plan: the best place to buy each type, and the cheapest layout there."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import NamedTuple

from launcher.model.candidate_group import CandidateGroup
from launcher.model.enums import PurchaseOption, TargetKind
from launcher.model.fleet import Fleet, Hosting, fleet, hosting_of
from launcher.model.money import Price
from launcher.model.serving import ServingChoices, ServingEstimate, ServingFacts
from launcher.model.serving_image import ServingImages
from launcher.pricing.context import PricingContext
from launcher.pricing.offers import Offer, offer
from launcher.pricing.serving.candidate import ServingCandidate, paid_hours
from launcher.pricing.serving.hosted import Hosted, bedrock_candidates
from launcher.pricing.serving.other_costs import monitoring_lines
from launcher.pricing.serving.quoting import standing_of
from launcher.pricing.serving.training_plan import planned_offer
from launcher.pricing.standing import rank_candidates
from launcher.targets.registry import target_of

CENT = Decimal("0.01")
"""Months that differ by less cost the same: the instance-hours are split into busy and idle ones, and rounded."""


OF_THE_LAYOUT = tuple(
    f"workload.serve.{key}" for key in ("tensor_parallel", "batch_size", "deployment", "max_instances")
)
"""Paths of findings that depend on the layout; for other refusals no layout helps."""


class _Filled(NamedTuple):
    """A layout under the traffic of the plan: how its copies run, and the fleet it needs."""

    estimate: ServingEstimate
    hosting: Hosting
    fleet: Fleet


class _Location(NamedTuple):
    """One location and term of a group, with its offer."""

    where: int
    term: int
    offer: Offer


class _Counter(NamedTuple):
    """The common inputs of a plan's candidates."""

    choices: ServingChoices
    context: PricingContext
    images: ServingImages
    facts: ServingFacts


def serving_candidates(
    choices: ServingChoices, context: PricingContext, images: ServingImages, facts: ServingFacts, *, everything: bool
) -> list[ServingCandidate]:
    """The candidates of a serving plan, best first: the best place of each type and purchase option, or all of them.

    In every place Slipway chooses the layout with the lowest quoted month, deployments and idle hours included. A
    tighter latency limit only removes layouts, and more traffic makes no layout cheaper, so neither lowers the price.

    Args:
        choices: the types, layouts and Bedrock modes that can serve the plan.
        context: the request and its prices.
        images: the pinned images, to check whether a plan can be deployed.
        facts: the inputs of the response-time estimate, for the same check.
        everything: whether to return all places.
    """
    counter = _Counter(choices, context, images, facts)
    filled: dict[tuple[str, TargetKind], Sequence[_Filled]] = {}
    candidates: list[ServingCandidate] = []
    for group in choices.groups:
        key = (group.instance_type, group.target)
        if key not in filled:
            filled[key] = tuple(_layouts(group, counter))
        locations = sorted(_locations(group, counter), key=lambda location: _rate(group, location))
        if everything:
            candidates += [_laid_out(group, location, filled[key], counter) for location in locations]
        else:
            candidates += _cheapest(group, locations, filled[key], counter)
    candidates += [
        _on_bedrock(option, counter) for option in bedrock_candidates(choices, context, everything=everything)
    ]
    return rank_candidates(candidates, standing_of)


def _layouts(group: CandidateGroup, counter: _Counter) -> Iterator[_Filled]:
    """The layouts of a type under the plan's traffic, the fastest first."""
    facts = counter.context.catalog.instance_types[group.instance_type]
    neuron = counter.context.catalog.accelerators[facts.accelerator or ""].family == "neuron"
    endpoint = target_of(group.target).is_managed
    for estimate in counter.choices.estimates[group.instance_type]:
        hosting = hosting_of(counter.choices.serve, endpoint=endpoint, neuron=neuron, copies=estimate.layout.copies)
        yield _Filled(estimate, hosting, fleet(counter.choices.serve, estimate.requests_per_s, hosting))


def _locations(group: CandidateGroup, counter: _Counter) -> Iterator[_Location]:
    """Every region, zone and term of a group."""
    context = counter.context
    for where in range(len(group.locations)):
        for term in range(len(group.terms)):
            yield _Location(
                where, term, offer(group.place(where, 1, term), context.request, context.catalog, context.rules.today)
            )


def _rate(group: CandidateGroup, location: _Location) -> tuple[bool, Decimal, str, str]:
    """The sort key of locations: by the price of an instance, unpriced ones last."""
    price, (region, zone) = location.offer.price, group.locations[location.where]
    return (not isinstance(price, Price), price.usd if isinstance(price, Price) else Decimal(0), region, zone or "")


def _cheapest(
    group: CandidateGroup, locations: Iterable[_Location], filled: Sequence[_Filled], counter: _Counter
) -> tuple[ServingCandidate, ...]:
    """The cheapest location that can be deployed; if none can, the cheapest one, so that the reason is visible.

    Locations come by price, and instances alone cost at least `least` hours; more expensive locations are skipped.
    """
    best: ServingCandidate | None = None
    hours = (_hours(group.option, layout) for layout in filled)
    least = Decimal(repr(min(hours, default=0.0)))
    for location in locations:
        price = location.offer.price
        usd = price.usd * least if isinstance(price, Price) else None
        if best is not None and not best.refusals and (usd is None or (best.usd is not None and usd > best.usd)):
            break
        candidate = _laid_out(group, location, filled, counter)
        if best is None or _preference(candidate) < _preference(best):
            best = candidate
    return () if best is None else (best,)


def _preference(candidate: ServingCandidate) -> tuple[bool, bool, Decimal]:
    """The sort key: deployable first, then priced, then by cost."""
    return (bool(candidate.refusals), candidate.usd is None, candidate.usd or Decimal(0))


def _laid_out(
    group: CandidateGroup, location: _Location, filled: Sequence[_Filled], counter: _Counter
) -> ServingCandidate:
    """A location with its cheapest deployable layout; of layouts with equal cost the fastest.

    Without a price Slipway chooses the layout with the fewest instance-hours.
    """
    first = _draw_candidate(group, location, filled[0], counter)
    first = replace(first, watching=monitoring_lines(first.place, first.serve, first.hosting.mode, counter.context))
    candidate = [
        first,
        *(replace(_draw_candidate(group, location, index, counter), watching=first.watching) for index in filled[1:]),
    ]
    costs = [_cost(index, layout) for index, layout in zip(candidate, filled, strict=True)]
    ordered = sorted(range(len(candidate)), key=costs.__getitem__)
    least = ordered[0]
    if _lies_with_the_layout(candidate[least]):
        least = next((index for index in ordered if not candidate[index].refusals), least)
    if candidate[least].refusals:
        return candidate[least]
    return next(
        index
        for index, cost in zip(candidate, costs, strict=True)
        if cost <= costs[least] + CENT and not index.refusals
    )


def _lies_with_the_layout(candidate: ServingCandidate) -> bool:
    """Whether another layout may remove all refusals of a candidate."""
    return bool(candidate.refusals) and all(refusal.path in OF_THE_LAYOUT for refusal in candidate.refusals)


def _cost(candidate: ServingCandidate, layout: _Filled) -> Decimal:
    """Dollars of a month, or its instance-hours if an hour has no price."""
    return candidate.usd if candidate.usd is not None else Decimal(repr(_hours(candidate.place.option, layout)))


def _hours(option: PurchaseOption, layout: _Filled) -> float:
    """Instance-hours of a month, deployments included."""
    return paid_hours(option, layout.fleet) + layout.fleet.deployment_hours


def _draw_candidate(group: CandidateGroup, location: _Location, layout: _Filled, counter: _Counter) -> ServingCandidate:
    context, choices = counter.context, counter.choices
    place = group.place(location.where, max(1, layout.fleet.instances.most), location.term)
    return ServingCandidate(
        place=place,
        offer=planned_offer(location.offer, place, context),
        hazard=context.hazard(place) if place.option is PurchaseOption.SPOT else None,
        context=context,
        serve=choices.serve,
        estimate=layout.estimate,
        fleet=layout.fleet,
        bedrock=None,
        weights_gb=choices.weights_gb,
        images=counter.images,
        facts=counter.facts,
        hosting=layout.hosting,
    )


def _on_bedrock(option: Hosted, counter: _Counter) -> ServingCandidate:
    serve = counter.choices.serve
    return ServingCandidate(
        place=option.place,
        offer=option.offer,
        hazard=None,
        context=counter.context,
        serve=replace(serve, bedrock=replace(serve.bedrock, mode=option.terms.mode)),
        estimate=None,
        fleet=None,
        bedrock=option.terms,
        weights_gb=0.0,
        images=counter.images,
        facts=counter.facts,
        lines=option.lines,
    )
