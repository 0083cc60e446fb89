"""The story of `capacity`: what AWS has for a plan at this moment, and the total dollars to finish with each of it."""

import shlex
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path

from launcher.aws.clients import Sessions
from launcher.model.capacity import BOUGHT, NOT_YET, OFFERED_PLAN, CapacityOffer, JudgedOffer, OfferKind
from launcher.model.enums import PurchaseOption
from launcher.model.errors import ImpossibleError
from launcher.model.money import UsdRange
from launcher.model.request import NodeRange, PlanRequest, Reservation, TrainingPlanReference
from launcher.model.target import taking, training_targets
from launcher.pricing.training import TrainingPriced
from launcher.workflow.doctor.offer_search import Answers, Search, Wanted
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import asked, price_job

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
class CapacityFound:
    """Every offer with its total, the soonest of the cheapest first, and what could not be asked."""

    priced: TrainingPriced
    offers: tuple[JudgedOffer, ...]
    unanswered: tuple[tuple[str, str], ...]

    @property
    def cheapest(self) -> JudgedOffer | None:
        """The one with the least total in the middle case."""
        known = [each for each in self.offers if each.usd is not None]
        return min(known, key=lambda each: each.usd.mid if each.usd else Decimal(0), default=None)

    @property
    def soonest(self) -> JudgedOffer | None:
        """The one that begins first of those that are held or for sale: what is only asked for may not come."""
        sure = [each for each in self.offers if each.offer.kind in (*BOUGHT, OfferKind.RESERVATION)]
        return min(sure, key=lambda each: (each.lead_time_h, each.usd.mid if each.usd else Decimal(0)), default=None)


def capacity(
    path: Path, now: datetime, options: PriceOptions, *, environment: Mapping[str, str], say: Callable[[str], None]
) -> CapacityFound:
    """Everything that can be had for a plan; nothing is bought.

    Raises:
        SlipwayError: the plan cannot be priced, or there are no credentials.
    """
    request, catalog = asked(path, now, options)
    if request.workload.serve is not None:
        message = f"{request.name} serves, and what an endpoint runs on is not bought ahead"
        raise ImpossibleError(message, hint=f"slipway doctor {shlex.quote(str(path))} looks at its quota")
    priced = price_job(path, request, catalog, now, options)
    answers = search(priced, environment=environment, say=say)
    judged = (_judged(priced, options, each) for each in answers.offers)
    ranked = sorted(judged, key=lambda each: (each.usd is None, each.usd.mid if each.usd else 0, each.lead_time_h))
    return CapacityFound(priced=priced, offers=tuple(ranked), unanswered=answers.unanswered)


def search(priced: TrainingPriced, *, environment: Mapping[str, str], say: Callable[[str], None]) -> Answers:
    """What AWS offers and holds for the candidates of a plan.

    Raises:
        CredentialsError: there are no credentials, or they have run out.
    """
    wanted = _wanted(priced)
    count = sum(len(each.regions) for each in wanted)
    places = "1 place" if count == 1 else f"{count} places"
    say(f"asking AWS for {', '.join(each.instance_type for each in wanted)} in {places}")
    hours = priced.request.purchase.deadline_h
    return Search(
        sessions=Sessions(environment),
        now=priced.now,
        until=priced.now + timedelta(hours=hours) if hours is not None else None,
        instances=priced.catalog.instance_types,
    ).run(wanted)


def _wanted(priced: TrainingPriced) -> tuple[Wanted, ...]:
    """Each type with the number of nodes of its best candidate, and every region where the plan may run."""
    best = {each.place.instance_type: each for each in reversed(priced.candidates) if each.place.instance_type}
    regions: dict[str, list[str]] = defaultdict(list)
    options: dict[str, set[PurchaseOption]] = defaultdict(set)
    for group in priced.resolution.groups:
        regions[group.instance_type] += [region for region, _zone in group.locations]
        options[group.instance_type].add(group.option)
    return tuple(
        Wanted(
            instance_type=name,
            count=each.place.nodes,
            hours=each.work.hours.mid,
            hours_high=each.work.hours.high,
            options=frozenset(options[name]),
            regions=tuple(dict.fromkeys(regions[name])),
        )
        for name, each in sorted(best.items())
        if priced.catalog.instance_types[name].accelerator is not None
    )


def _judged(priced: TrainingPriced, options: PriceOptions, offer: CapacityOffer) -> JudgedOffer:
    """An offer with the total of the job on it, priced as any candidate is."""
    wait = max(0.0, (offer.starts_at - priced.now).total_seconds() / 3600) if offer.starts_at is not None else 0.0
    usd, note = _total(priced, options, offer)
    return JudgedOffer(
        offer=offer, usd=usd, lead_time_h=wait, purchase_command=purchase_command(offer, priced.request), note=note
    )


def _total(priced: TrainingPriced, options: PriceOptions, offer: CapacityOffer) -> tuple[UsdRange | None, str]:
    """Low, middle and high; None with the reason where the job cannot run on it."""
    request = pinned_to(priced, offer)
    try:
        quoted = price_job(Path(priced.path), request, priced.catalog, priced.now, options).quote(1)
    except ImpossibleError as problem:
        return None, next(iter(_messages(problem)), problem.message)
    against = next((each.message for each in quoted.findings if each.level == "error"), "")
    if quoted.usd is None:
        return None, quoted.unpriced or "unpriced"
    return (None, against) if against else (quoted.usd, "")


def _messages(problem: ImpossibleError) -> Iterable[str]:
    return (each.message for each in problem.findings)


def pinned_to(priced: TrainingPriced, offer: CapacityOffer) -> PlanRequest:
    """The request as it would be with the offer in hand."""
    request = priced.request
    kind, bought = request.target.kind, None
    held = None
    fee = offer.fee_usd
    if offer.kind in (OfferKind.CAPACITY_BLOCK, OfferKind.EXTENSION) or _is_block(offer):
        begins = priced.now if offer.kind is OfferKind.EXTENSION else offer.starts_at
        held = Reservation(
            id=NOT_YET, starts_at=begins, ends_at=offer.ends_at, count=offer.count, fee_usd=fee or Decimal(0)
        )
    elif offer.kind is OfferKind.TRAINING_PLAN:
        arn = f"arn:aws:sagemaker:{offer.region}:000000000000:{OFFERED_PLAN}"
        bought = TrainingPlanReference(
            arn=arn, starts_at=offer.starts_at, ends_at=offer.ends_at, count=offer.count, fee_usd=fee
        )
        kind = (taking(PurchaseOption.TRAINING_PLAN, training_targets()),)
    option = PurchaseOption.CAPACITY_BLOCK if held is not None else OPTIONS[offer.kind]
    nodes = _nodes(priced, offer)
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
        purchase=replace(request.purchase, option=(option,), reservation=held, training_plan=bought),
    )


def _is_block(offer: CapacityOffer) -> bool:
    """Whether a reservation of the account is a Capacity Block, which is paid: its fee is nothing more."""
    return offer.kind is OfferKind.RESERVATION and offer.fee_usd is not None


def _nodes(priced: TrainingPriced, offer: CapacityOffer) -> int:
    """As many as the best candidate of the type takes, or all of an offer that has fewer."""
    places = (each.place for each in priced.candidates if each.place.instance_type == offer.instance_type)
    return max(1, min(next(places).nodes, offer.count))


def purchase_command(offer: CapacityOffer, request: PlanRequest) -> str | None:
    """The command that buys an offer, to be typed by a person; None for what is not bought.

    An offering's id can be bought once, and a training plan's name given once, so that a repeated command buys nothing
    a second time.
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
