"""The `capacity` command: current offers of AWS for a plan, each with the total dollars to finish."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path

from launcher.aws.clients import Sessions
from launcher.model.capacity import (
    BOUGHT,
    NOT_YET,
    OFFERED_PLAN,
    CapacityOffer,
    JudgedOffer,
    OfferKind,
)
from launcher.model.enums import PurchaseOption, TargetKind
from launcher.model.errors import ImpossibleError
from launcher.model.money import UsdRange
from launcher.model.request import NodeRange, PlanRequest, Reservation, TrainingPlanReference
from launcher.model.stages import Notify
from launcher.pricing.training import TrainingPriced
from launcher.targets.registry import taking, target_of, training_targets
from launcher.workflow.doctor.offer_search import OfferRequest, Search
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import load_request, price_job

ENDPOINT_OFFERS = (
    "training plans of endpoints: aws sagemaker search-training-plan-offerings --target-resources endpoint"
    " --instance-type ml.TYPE --instance-count N --duration-hours H"
)
"""How to look up what Slipway does not search."""
MAX_LISTED = 4
"""Instance types that the message names."""
PLATFORM = "Linux/UNIX"
OPTIONS = {
    OfferKind.CAPACITY_BLOCK: PurchaseOption.CAPACITY_BLOCK,
    OfferKind.EXTENSION: PurchaseOption.CAPACITY_BLOCK,
    OfferKind.TRAINING_PLAN: PurchaseOption.TRAINING_PLAN,
    OfferKind.RESERVATION: PurchaseOption.ON_DEMAND,
    OfferKind.ON_DEMAND: PurchaseOption.ON_DEMAND,
    OfferKind.SPOT: PurchaseOption.SPOT,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityOffers:
    """Every offer with its total, the soonest of the cheapest first, and the questions that failed."""

    priced: TrainingPriced
    offers: tuple[JudgedOffer, ...]
    unanswered: tuple[tuple[str, str], ...]

    @property
    def cheapest(self) -> JudgedOffer | None:
        """The offer with the lowest middle estimate of the total."""
        known = [offer for offer in self.offers if offer.usd is not None]
        return min(known, key=lambda offer: offer.usd.mid if offer.usd else Decimal(0), default=None)

    @property
    def soonest(self) -> JudgedOffer | None:
        """The offer that begins first among owned and purchasable ones; a mere request may not be granted."""
        sure = [offer for offer in self.offers if offer.offer.kind in (*BOUGHT, OfferKind.RESERVATION)]
        return min(
            sure, key=lambda offer: (offer.lead_time_h, offer.usd.mid if offer.usd else Decimal(0)), default=None
        )


def capacity(
    path: Path, now: datetime, options: PriceOptions, *, environment: Mapping[str, str], notify: Notify
) -> CapacityOffers:
    """Find all capacity for a plan; Slipway buys nothing.

    Raises:
        SlipwayError: the plan cannot be priced, or credentials are missing.
    """
    request, catalog = load_request(path, now, options)
    if request.workload.serve is not None:
        raise ImpossibleError(f"{request.name} serves: offers are looked up for jobs only", hint=ENDPOINT_OFFERS)
    priced = price_job(path, request, catalog, now, options)
    offers, unanswered = search(priced, environment=environment, notify=notify)
    judged = (_assess(priced, options, offer) for offer in offers)
    ranked = sorted(judged, key=lambda offer: (offer.usd is None, offer.usd.mid if offer.usd else 0, offer.lead_time_h))
    return CapacityOffers(priced=priced, offers=tuple(ranked), unanswered=unanswered)


def search(
    priced: TrainingPriced, *, environment: Mapping[str, str], notify: Notify
) -> tuple[tuple[CapacityOffer, ...], tuple[tuple[str, str], ...]]:
    """The current offers and reservations for the candidates of a plan, and the questions that failed."""
    requests = _requests(priced)
    count = sum(len(request.regions) for request in requests)
    places = "1 place" if count == 1 else f"{count} places"
    types = [request.instance_type for request in requests]
    listed = ", ".join(types) if len(types) <= MAX_LISTED else f"{', '.join(types[:MAX_LISTED])}, {len(types)} types,"
    notify(f"asking AWS for {listed} in {places}")
    hours = priced.request.purchase.deadline_h
    return Search(
        sessions=Sessions(environment),
        now=priced.now,
        until=priced.now + timedelta(hours=hours) if hours is not None else None,
        instances=priced.catalog.instance_types,
        planned_for=target_of(planned_target(priced.request)).planned_for,
    ).run(requests)


def _requests(priced: TrainingPriced) -> tuple[OfferRequest, ...]:
    """Each type with the node count of its best candidate, and every region where the plan may run."""
    best = {
        candidate.place.instance_type: candidate
        for candidate in reversed(priced.candidates)
        if candidate.place.instance_type
    }
    regions: dict[str, list[str]] = defaultdict(list)
    options: dict[str, set[PurchaseOption]] = defaultdict(set)
    for group in priced.resolution.groups:
        regions[group.instance_type] += [region for region, _zone in group.locations]
        options[group.instance_type].add(group.option)
    return tuple(
        OfferRequest(
            instance_type=name,
            count=candidate.place.nodes,
            hours=candidate.work.hours.mid,
            hours_high=candidate.work.hours.high,
            options=frozenset(options[name]),
            regions=tuple(dict.fromkeys(regions[name])),
        )
        for name, candidate in sorted(best.items())
        # Capacity Blocks, training plans and scarce zones are of accelerated types.
        if priced.catalog.instance_types[name].accelerator is not None
    )


def _assess(priced: TrainingPriced, options: PriceOptions, offer: CapacityOffer) -> JudgedOffer:
    wait = max(0.0, (offer.starts_at - priced.now).total_seconds() / 3600) if offer.starts_at is not None else 0.0
    usd, note = _total(priced, options, offer)
    return JudgedOffer(
        offer=offer, usd=usd, lead_time_h=wait, purchase_command=purchase_command(offer, priced.request), note=note
    )


def _total(priced: TrainingPriced, options: PriceOptions, offer: CapacityOffer) -> tuple[UsdRange | None, str]:
    """Low, middle and high; None with the reason if the job cannot run on it."""
    # The offer is priced as if it were bought: its fee, its hours and its instances are the plan's.
    request = pinned_to(priced, offer)
    try:
        quoted = price_job(Path(priced.path), request, priced.catalog, priced.now, options).quote(1)
    except ImpossibleError as problem:
        return None, next((finding.message for finding in problem.findings), problem.message)
    against = next((finding.message for finding in quoted.findings if finding.level == "error"), "")
    if quoted.usd is None:
        return None, quoted.no_price_reason or "unpriced"
    return (None, against) if against else (quoted.usd, "")


def planned_target(request: PlanRequest) -> TargetKind:
    """The target for which a training plan would be bought: the first of the plan's own that takes one."""
    named = tuple(kind for kind in request.target.kind or () if PurchaseOption.TRAINING_PLAN in target_of(kind).trains)
    return taking(PurchaseOption.TRAINING_PLAN, named or training_targets())


def pinned_to(priced: TrainingPriced, offer: CapacityOffer) -> PlanRequest:
    """The request as if the user had bought the offer."""
    request = priced.request
    kind, bought = request.target.kind, None
    reservation = None
    fee = offer.fee_usd
    if offer.kind in (OfferKind.CAPACITY_BLOCK, OfferKind.EXTENSION) or (
        offer.kind is OfferKind.RESERVATION and offer.fee_usd is not None
    ):
        begins = priced.now if offer.kind is OfferKind.EXTENSION else offer.starts_at
        reservation = Reservation(
            id=NOT_YET, starts_at=begins, ends_at=offer.ends_at, count=offer.count, fee_usd=fee or Decimal(0)
        )
    elif offer.kind is OfferKind.TRAINING_PLAN:
        arn = f"arn:aws:sagemaker:{offer.region}:000000000000:{OFFERED_PLAN}"
        bought = TrainingPlanReference(
            arn=arn, starts_at=offer.starts_at, ends_at=offer.ends_at, count=offer.count, fee_usd=fee
        )
        kind = (planned_target(request),)
    option = PurchaseOption.CAPACITY_BLOCK if reservation is not None else OPTIONS[offer.kind]
    places = (
        candidate.place for candidate in priced.candidates if candidate.place.instance_type == offer.instance_type
    )
    nodes = max(1, min(next(places).nodes, offer.count))
    return replace(
        request,
        target=replace(
            request.target,
            kind=kind,
            region=(offer.region,),
            az_id=offer.az_id,
            instance_type=(offer.instance_type,),
            nodes=NodeRange(minimum=nodes, maximum=nodes),
        ),
        purchase=replace(request.purchase, option=(option,), reservation=reservation, training_plan=bought),
    )


def purchase_command(offer: CapacityOffer, request: PlanRequest) -> str | None:
    """The command with which the user buys an offer; None for offers that are not bought.

    An offering's id can be bought once, and a training plan's name used once, so that a repeated command does not buy
    again.
    """
    if offer.kind is OfferKind.CAPACITY_BLOCK:
        return (
            f"aws ec2 purchase-capacity-block --region {offer.region} --instance-platform {PLATFORM} "
            f"--capacity-block-offering-id {offer.id}"
        )
    if offer.kind is OfferKind.EXTENSION:
        return (
            f"aws ec2 purchase-capacity-block-extension --region {offer.region} "
            f"--capacity-block-extension-offering-id {offer.id} --capacity-reservation-id {offer.reservation}"
        )
    if offer.kind is OfferKind.TRAINING_PLAN:
        begins = f"-{offer.starts_at:%Y%m%d}" if offer.starts_at is not None else ""
        return (
            f"aws sagemaker create-training-plan --region {offer.region} "
            f"--training-plan-name {request.name}{begins} --training-plan-offering-id {offer.id}"
        )
    return None
