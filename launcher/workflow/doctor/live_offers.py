"""Current offers of AWS as candidates of the plan: each is priced like any candidate, with its own fee."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from launcher.aws.clients import Sessions
from launcher.model.capacity import BOUGHT, CapacityOffer, OfferKind
from launcher.model.enums import Basis
from launcher.model.errors import ImpossibleError
from launcher.model.money import Price
from launcher.model.stages import Notify
from launcher.model.units import number_of
from launcher.pricing.context import PricingContext
from launcher.pricing.priced import Priced
from launcher.pricing.serving.quoting import ServingPriced
from launcher.pricing.serving.quoting import standing_of as standing_of_serving
from launcher.pricing.standing import rank_candidates
from launcher.pricing.training import TrainingPriced, price_training, standing_of
from launcher.pricing.training_candidate import TrainingCandidate
from launcher.targets.registry import target_of
from launcher.workflow.doctor.offers import ENDPOINT_OFFERS, pinned_to, search
from launcher.workflow.doctor.quotas import account_quotas
from launcher.workflow.quote.commands import command
from launcher.workflow.quote.compare import Comparison
from launcher.workflow.quote.compare_serving import ServingComparison
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import price_job

CALLS = {
    OfferKind.CAPACITY_BLOCK: "DescribeCapacityBlockOfferings",
    OfferKind.EXTENSION: "DescribeCapacityBlockExtensionOfferings",
    OfferKind.TRAINING_PLAN: "SearchTrainingPlanOfferings",
    OfferKind.RESERVATION: "DescribeCapacityReservations",
}
"""Purchase options whose offers state an amount and a price; on demand and spot have rows without an offer."""

MAX_REGIONS = 3
"""Regions of the first rows in which the quotas of a service are read: SageMaker lists thousands in each."""


def with_live_offers(
    priced: Priced,
    options: PriceOptions,
    *,
    environment: Mapping[str, str],
    notify: Notify,
) -> Priced:
    """The candidates together with AWS's current offers and the account's reservations; nothing is bought.

    An offer that is too short or too late for the job has no row. A candidate that the account's quotas do not allow
    is refused. Endpoints have quotas only: their offers are not looked up. Failed questions are reported.
    """
    if isinstance(priced, ServingPriced):
        notify(f"offers are looked up for jobs only; {ENDPOINT_OFFERS}")
        context = _with_quotas(priced, environment, notify)
        endpoints = [replace(candidate, context=context) for candidate in priced.candidates]
        ranked = rank_candidates(endpoints, standing_of_serving)
        return replace(priced, context=context, candidates=ranked, _quotes={}, _digests={})
    if not isinstance(priced, TrainingPriced):
        raise TypeError(type(priced))
    priced = replace(
        price_training(
            priced.path,
            priced.resolution,
            _with_quotas(priced, environment, notify),
            everything=options.everything,
            picked=options.picked_id,
        ),
        blocking=priced.blocking,
        can_pick=priced.can_pick,
    )
    offers, unanswered = search(priced, environment=environment, notify=notify)
    for question, reason in unanswered:
        notify(f"? {question}: {reason}")
    offered = [capacity_offer for capacity_offer in offers if capacity_offer.kind in CALLS]
    rows = [row for offer in offered for row in _rows(priced, options, offer)]
    notify(f"{number_of(len(offered), 'current offer')}, {len(rows)} of them long enough")
    return replace(
        priced,
        candidates=rank_candidates([*priced.candidates, *rows], standing_of),
        considered=priced.considered + len(offered),
        _quotes={},
        _digests={},
    )


def _with_quotas(priced: Priced, environment: Mapping[str, str], notify: Notify) -> PricingContext:
    """The context with the account's quotas of instances, read in the regions of the first priced rows."""
    places: dict[tuple[str, str], None] = {}
    for candidate in priced.candidates:
        place, known = candidate.place, candidate.usd is not None and candidate.place.instance_type
        service = "sagemaker" if target_of(place.target).is_managed else "ec2"
        regions = {region for region, other in places if other == service}
        if known and (place.region in regions or len(regions) < MAX_REGIONS):
            places[place.region, service] = None
    if not places or priced.request.target.cluster is not None:
        return priced.context
    notify(f"reading the quotas of {', '.join(f'{service} in {region}' for region, service in places)}")
    return replace(priced.context, quotas=account_quotas(Sessions(environment), places, notify))


def compared_live(
    comparison: Comparison | ServingComparison,
    options: PriceOptions,
    *,
    environment: Mapping[str, str],
    notify: Notify,
) -> Comparison:
    """A comparison with the current offers among its candidates; see `with_live_offers`.

    Raises:
        ImpossibleError: the comparison is of endpoints.
    """
    if isinstance(comparison.priced, ServingPriced):
        message = f"{comparison.priced.request.name} serves: offers are looked up for jobs only"
        raise ImpossibleError(message, hint=f"drop --live; {ENDPOINT_OFFERS}")
    priced = with_live_offers(comparison.priced, options, environment=environment, notify=notify)
    if not isinstance(comparison, Comparison):
        raise TypeError(type(comparison))
    pinned = priced if comparison.pinned is comparison.priced else comparison.pinned
    return replace(comparison, priced=priced, pinned=pinned)


def _rows(priced: TrainingPriced, options: PriceOptions, offer: CapacityOffer) -> Iterator[TrainingCandidate]:
    try:
        candidates = price_job(
            Path(priced.path), pinned_to(priced, offer), priced.catalog, priced.now, options
        ).candidates
    except ImpossibleError:
        return
    best = candidates[0]
    if best.refusals or not isinstance(best.offer.price, Price):
        return
    price, source = best.offer.price, f"AWS, {CALLS[offer.kind]} at this moment"
    if offer.kind in BOUGHT:
        listed = replace(price, source=source, basis=Basis.LISTED, as_of=priced.now.date())
        best = replace(best, offer=best.offer._replace(price=listed))
    # The quotas of the account decide on the offer, too.
    best = replace(best, context=replace(best.context, quotas=priced.context.quotas))
    begins = offer.starts_at
    soon = begins is None or begins <= priced.now + timedelta(minutes=1)
    when = "from now on" if soon or begins is None else f"from {begins:%Y-%m-%d %H:%M} UTC"
    until = f" to {offer.ends_at:%Y-%m-%d %H:%M}" if offer.ends_at is not None else ""
    label = "yours" if offer.kind is OfferKind.RESERVATION else "offered now"
    command_hint = "" if offer.kind is OfferKind.RESERVATION else f"; {command(priced, 'capacity')} shows how to buy it"
    yield replace(best, offered=f"{label}: {offer.id}, {when}{until}{command_hint}", to_buy=offer.kind in BOUGHT)
