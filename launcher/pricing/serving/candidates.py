"""The candidates of a serving plan: where each type is best bought, and which layout is then the cheapest to run."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import NamedTuple

from launcher.model.enums import PurchaseOption, TargetKind
from launcher.model.fleet import HOURS_PER_MONTH, Fleet, Stand, fleet, stand_of
from launcher.model.money import Price, Range
from launcher.model.serving import ServingChoices, ServingEstimate
from launcher.model.way import Way
from launcher.model.work import Work
from launcher.pricing.desk import Desk
from launcher.pricing.drafts import Draft, ranked
from launcher.pricing.offers import Offer, offer
from launcher.pricing.serving.around import watched
from launcher.pricing.serving.drafts import Judged, ServingDraft, paid_hours
from launcher.pricing.serving.hosted import Hosted, hosted

CENT = Decimal("0.01")
"""Months that differ by less cost the same: the hours of an instance are split into busy and idle ones, and rounded."""


OF_THE_LAYOUT = tuple(
    f"workload.serve.{each}" for each in ("tensor_parallel", "batch_size", "deployment", "max_instances")
)
"""Paths of findings that a layout decides: where others are refused, no layout helps."""


class _Filled(NamedTuple):
    """A layout under the traffic of the plan: how its copies stand, and the instances it takes."""

    estimate: ServingEstimate
    stand: Stand
    fleet: Fleet


class _Site(NamedTuple):
    """Where and how a way is bought, and at what price."""

    where: int
    term: int
    offer: Offer


class _Counter(NamedTuple):
    """What the candidates of one plan have in common."""

    choices: ServingChoices
    desk: Desk
    judged: Judged


def serving_drafts(choices: ServingChoices, desk: Desk, judged: Judged, *, everything: bool) -> list[Draft]:
    """The candidates of a serving plan, best first: the best place of each type and way of buying, or all of them.

    In every place the layout is the one whose month costs least as it is quoted, deployments and idle hours included.
    A tighter limit on latency only takes layouts away, and more traffic makes none of them cheaper, so neither ever
    lowers the price.

    Args:
        choices: what can carry the plan.
        desk: the request and its prices.
        judged: finds what keeps a plan from being deployed.
        everything: whether all places are wanted.
    """
    counter = _Counter(choices, desk, judged)
    filled: dict[tuple[str, TargetKind], Sequence[_Filled]] = {}
    found: list[Draft] = []
    for way in choices.ways:
        key = (way.instance_type, way.target)
        if key not in filled:
            filled[key] = tuple(_filled(way, counter))
        sites = sorted(_sites(way, counter), key=lambda each: _rate(way, each))
        if everything:
            found += [_laid_out(way, each, filled[key], counter) for each in sites]
        else:
            found += _cheapest(way, sites, filled[key], counter)
    found += [_on_bedrock(each, counter) for each in hosted(choices, desk)]
    return ranked(found)


def _filled(way: Way, counter: _Counter) -> Iterator[_Filled]:
    """The layouts of a type under the plan's traffic, the fastest first."""
    facts = counter.desk.catalog.instance_types[way.instance_type]
    neuron = counter.desk.catalog.accelerators[facts.accelerator or ""].family == "neuron"
    endpoint = way.target is TargetKind.SAGEMAKER_ENDPOINT
    for told in counter.choices.estimates[way.instance_type]:
        stand = stand_of(counter.choices.serve, endpoint=endpoint, neuron=neuron, copies=told.layout.copies)
        yield _Filled(told, stand, fleet(counter.choices.serve, told.requests_per_s, stand))


def _sites(way: Way, counter: _Counter) -> Iterator[_Site]:
    """Every region, zone and term of a way."""
    desk = counter.desk
    for where in range(len(way.sites)):
        for term in range(len(way.terms)):
            yield _Site(where, term, offer(way.place(where, 1, term), desk.request, desk.catalog, desk.rules.today))


def _rate(way: Way, each: _Site) -> tuple[bool, Decimal, str, str]:
    """The order in which sites are looked at: by the price of an instance, unpriced ones last."""
    price, (region, zone) = each.offer.price, way.sites[each.where]
    return (not isinstance(price, Price), price.usd if isinstance(price, Price) else Decimal(0), region, zone or "")


def _cheapest(
    way: Way, sites: Iterable[_Site], filled: Sequence[_Filled], counter: _Counter
) -> tuple[ServingDraft, ...]:
    """The cheapest of several sites that can be deployed in; without any, the cheapest, that the reason is seen.

    Sites come by price, and instances alone cost `least` hours of it: those that are dearer by that are not drawn up.
    """
    best: ServingDraft | None = None
    hours = (_hours(way.option, each) for each in filled)
    least = Decimal(repr(min(hours, default=0.0)))
    for site in sites:
        price = site.offer.price
        usd = price.usd * least if isinstance(price, Price) else None
        if best is not None and not best.refusals and (usd is None or (best.usd is not None and usd > best.usd)):
            break
        drawn = _laid_out(way, site, filled, counter)
        if best is None or _preference(drawn) < _preference(best):
            best = drawn
    return () if best is None else (best,)


def _preference(each: ServingDraft) -> tuple[bool, bool, Decimal]:
    """What can be deployed comes before what cannot, then what has a price, then what costs least."""
    return (bool(each.refusals), each.usd is None, each.usd or Decimal(0))


def _laid_out(way: Way, site: _Site, filled: Sequence[_Filled], counter: _Counter) -> ServingDraft:
    """A site with its cheapest layout that can be deployed; of equal ones the fastest.

    Without a price the layout with the fewest instance-hours is taken.
    """
    first = _drawn(way, site, filled[0], counter)
    first = replace(first, watching=watched(first.place, first.serve, first.stand.mode, counter.desk))
    drawn = [first, *(replace(_drawn(way, site, each, counter), watching=first.watching) for each in filled[1:])]
    costs = [_cost(each, layout) for each, layout in zip(drawn, filled, strict=True)]
    ordered = sorted(range(len(drawn)), key=costs.__getitem__)
    least = ordered[0]
    if _lies_with_the_layout(drawn[least]):
        least = next((each for each in ordered if not drawn[each].refusals), least)
    if drawn[least].refusals:
        return drawn[least]
    return next(
        each for each, cost in zip(drawn, costs, strict=True) if cost <= costs[least] + CENT and not each.refusals
    )


def _lies_with_the_layout(drawn: ServingDraft) -> bool:
    """Whether all that stands against a candidate may be gone with another layout."""
    return bool(drawn.refusals) and all(each.path in OF_THE_LAYOUT for each in drawn.refusals)


def _cost(drawn: ServingDraft, layout: _Filled) -> Decimal:
    """Dollars of a month, or its instance-hours where an hour has no price."""
    return drawn.usd if drawn.usd is not None else Decimal(repr(_hours(drawn.place.option, layout)))


def _hours(option: PurchaseOption, layout: _Filled) -> float:
    """Instance-hours of a month, deployments included."""
    return paid_hours(option, layout.fleet) + layout.fleet.deployment_hours


def _drawn(way: Way, site: _Site, layout: _Filled, counter: _Counter) -> ServingDraft:
    """The candidate of one site and one layout."""
    desk, choices = counter.desk, counter.choices
    place = way.place(site.where, max(1, layout.fleet.instances.most), site.term)
    return ServingDraft(
        place=place,
        work=_work(place.instance_type, place.nodes, desk.catalog.instance_types[place.instance_type].accelerator),
        offer=site.offer,
        charge=None,
        hazard=desk.hazard(place) if place.option is PurchaseOption.SPOT else None,
        desk=desk,
        serve=choices.serve,
        estimate=layout.estimate,
        fleet=layout.fleet,
        bedrock=None,
        weights_gb=choices.weights_gb,
        judged=counter.judged,
        stand=layout.stand,
    )


def _on_bedrock(each: Hosted, counter: _Counter) -> ServingDraft:
    """A candidate of Bedrock."""
    serve = counter.choices.serve
    return ServingDraft(
        place=each.place,
        work=_work("", each.place.nodes, None),
        offer=each.offer,
        charge=None,
        hazard=None,
        desk=counter.desk,
        serve=replace(serve, bedrock=replace(serve.bedrock, mode=each.terms.mode)),
        estimate=None,
        fleet=None,
        bedrock=each.terms,
        weights_gb=0.0,
        judged=counter.judged,
        lines=each.lines,
    )


def _work(instance_type: str, nodes: int, accelerator: str | None) -> Work:
    """A month on so many instances."""
    month = Range(low=HOURS_PER_MONTH, mid=HOURS_PER_MONTH, high=HOURS_PER_MONTH)
    return Work(
        instance_type=instance_type,
        nodes=nodes,
        hours=month,
        training=None,
        checkpoint_write_s=None,
        checkpoint_gb=None,
        accelerator=accelerator,
    )
