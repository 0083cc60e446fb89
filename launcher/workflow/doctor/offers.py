"""The `capacity` command: current offers of AWS for a plan, each with the total dollars to finish."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from threading import Lock

from launcher.aws import regions as zones_of
from launcher.aws.capacity_offers import (
    MAX_REGIONS,
    MIN_TYPES,
    block_offers,
    extension_offers,
    placement_scores,
    plan_offers,
)
from launcher.aws.clients import Sessions
from launcher.aws.reservations import reservations
from launcher.aws.session import CredentialsError, Session
from launcher.model.capacity import (
    BOUGHT,
    NOT_YET,
    OFFERED_PLAN,
    CapacityOffer,
    CapacityRequest,
    JudgedOffer,
    OfferKind,
)
from launcher.model.enums import PurchaseOption, TargetKind
from launcher.model.errors import AwsError, ImpossibleError
from launcher.model.instance_type import InstanceType
from launcher.model.money import UsdRange
from launcher.model.request import NodeRange, PlanRequest, Reservation, TrainingPlanReference
from launcher.model.stages import Notify
from launcher.pricing.blocks import (
    BLOCK_LOST_H,
    DAILY_UP_TO,
    HOURS_A_DAY,
    LEAD_WEEKS,
    LONGEST_DAYS,
    PLAN_LOST_H,
    block_days,
)
from launcher.pricing.training import TrainingPriced
from launcher.targets.registry import taking, target_of, training_targets
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import load_request, price_job

ENDPOINT_OFFERS = (
    "training plans of endpoints: aws sagemaker search-training-plan-offerings --target-resources endpoint"
    " --instance-type ml.TYPE --instance-count N --duration-hours H"
)
"""How to look up what Slipway does not search."""
AT_ONCE = 8
MAX_LISTED = 4
"""Instance types that the message names."""
LENGTHS = 4
"""Number of lengths to query: the shortest that fits the job, and the next ones, which may be cheaper or sooner."""
WEEK = timedelta(weeks=1)
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
class OfferRequest:
    """Instances that the plan could use: type, count, hours of the job, purchase options, and regions to search."""

    instance_type: str
    count: int
    hours: float
    hours_high: float
    options: frozenset[PurchaseOption]
    regions: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Search:
    """One search: the clients, the current time, the latest allowed end, and the catalog's instance types.

    `planned_for` is the resource for which training plans are sold: the target of a bought plan cannot be changed.
    """

    sessions: Sessions
    now: datetime
    until: datetime | None
    instances: Mapping[str, InstanceType]
    planned_for: str
    _zones: dict[str, Mapping[str, str]] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def run(self, requests: Sequence[OfferRequest]) -> tuple[tuple[CapacityOffer, ...], tuple[tuple[str, str], ...]]:
        """Every offer for any of these instances, and the questions that failed, each with the reason."""
        questions = [(label, ask) for request in requests for label, ask in self._questions(request)]
        offers: list[CapacityOffer] = []
        unanswered = []
        with ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
            for (label, _), answer in zip(
                questions, pool.map(lambda question: _try_ask(question[1]), questions), strict=True
            ):
                if isinstance(answer, AwsError):
                    unanswered.append((label, answer.message))
                else:
                    offers += answer
        return tuple(dict.fromkeys(offers)), tuple(unanswered)

    def _questions(self, request: OfferRequest) -> Iterator[tuple[str, Callable[[], Sequence[CapacityOffer]]]]:
        name, count = request.instance_type, request.count
        for region in request.regions:
            if PurchaseOption.CAPACITY_BLOCK in request.options:
                for capacity_request in self._capacity_requests(request, BLOCK_LOST_H):
                    yield (
                        f"Capacity Blocks of {capacity_request.text} in {region}",
                        _bind(self._blocks, region, capacity_request),
                    )
            if PurchaseOption.TRAINING_PLAN in request.options:
                for capacity_request in self._capacity_requests(request, PLAN_LOST_H):
                    yield (
                        f"training plans of {capacity_request.text} in {region}",
                        _bind(self._plans, region, capacity_request),
                    )
            yield f"reservations of {name} in {region}", _bind(self._owned_capacity, region, name, request)
            if PurchaseOption.ON_DEMAND in request.options:
                yield f"zones of {region} that offer {name}", _bind(self._on_demand_offers, region, name, count)
        if PurchaseOption.SPOT in request.options:
            for start in range(0, len(request.regions), MAX_REGIONS):
                some = request.regions[start : start + MAX_REGIONS]
                yield f"spot placement scores of {name}", _bind(self._scores, name, count, some)

    def _capacity_requests(self, request: OfferRequest, lost_h: float) -> Iterator[CapacityRequest]:
        """The lengths that fit the job, each over the full sales period; the shortest also week by week.

        EC2 returns only the earliest offer of a time window: later starts, which can be cheaper, need their windows.
        """
        days = block_days(request.hours, lost_h)
        last = self.now + LEAD_WEEKS * WEEK
        sold = [*range(1, DAILY_UP_TO + 1), *range(DAILY_UP_TO + 7, LONGEST_DAYS + 1, 7)]
        for index, length in enumerate(
            [days_sold for days_sold in sold if days is not None and days_sold >= days][:LENGTHS]
        ):
            hours = int(length * HOURS_A_DAY)
            end = last + timedelta(hours=hours)
            # An offer that ends after the deadline is no use to the job.
            latest = min(end, self.until) if self.until is not None else end
            # Each start is a call in every region: only the shortest length is asked for week by week.
            starts = [self.now + week * WEEK for week in range(LEAD_WEEKS)] if index == 0 else [self.now]
            for start in starts:
                if start + timedelta(hours=hours) <= latest:
                    yield CapacityRequest(
                        instance_type=request.instance_type,
                        count=request.count,
                        hours=hours,
                        earliest=start,
                        latest=latest,
                    )

    def _blocks(self, region: str, capacity_request: CapacityRequest) -> Sequence[CapacityOffer]:
        return block_offers(self._session(region, "ec2"), capacity_request, self._zone_ids(region))

    def _plans(self, region: str, capacity_request: CapacityRequest) -> Sequence[CapacityOffer]:
        return plan_offers(
            self._session(region, "sagemaker"), capacity_request, self._zone_ids(region), self.planned_for
        )

    def _owned_capacity(self, region: str, name: str, request: OfferRequest) -> Sequence[CapacityOffer]:
        """The account's own capacity, and for a block that ends before the job its possible extensions."""
        session, offers = self._session(region, "ec2"), []
        for reservation in reservations(session, name):
            owned = CapacityOffer(
                kind=OfferKind.RESERVATION,
                id=reservation.id,
                region=region,
                az_id=reservation.az_id or None,
                instance_type=name,
                # Before a reservation begins, EC2 counts none of its instances as available.
                count=reservation.available if reservation.state == "active" else reservation.total,
                starts_at=reservation.starts_at,
                ends_at=reservation.ends_at,
                fee_usd=Decimal(0) if reservation.block else None,
            )
            offers.append(owned)
            if reservation.block and reservation.ends_at is not None:
                # A block that has not begun leaves the hours from its begin.
                left_h = (reservation.ends_at - max(self.now, reservation.starts_at or self.now)).total_seconds() / 3600
                missing = request.hours_high - (left_h - BLOCK_LOST_H)
                days = block_days(missing, 0.0) if missing > 0 else None
                if days is not None:
                    offers += extension_offers(session, reservation.id, int(days * HOURS_A_DAY))
        return offers

    def _on_demand_offers(self, region: str, name: str, count: int) -> Sequence[CapacityOffer]:
        return [
            CapacityOffer(kind=OfferKind.ON_DEMAND, id=None, region=region, az_id=zone, instance_type=name, count=count)
            for zone in sorted(zones_of.offering_zones(self._session(region, "ec2"), name))
        ]

    def _scores(self, name: str, count: int, regions: Sequence[str]) -> Sequence[CapacityOffer]:
        """One offer per zone; a type with fewer than two kin is not queried: its score would always be low."""
        pool = kin(self.instances[name], self.instances)
        if len(pool) < MIN_TYPES:
            return ()
        vcpus = count * self.instances[name].vcpus
        session = self._session(self.sessions.home, "ec2")
        return [
            CapacityOffer(
                kind=OfferKind.SPOT,
                id=None,
                region=region,
                az_id=zone or None,
                instance_type=name,
                count=count,
                score=score,
                pool=pool,
            )
            for region, zone, score in placement_scores(session, pool, vcpus, regions)
        ]

    def _session(self, region: str, service: str) -> Session:
        return self.sessions.session(region, service)

    def _zone_ids(self, region: str) -> Mapping[str, str]:
        # Questions of one region run at once, and need the same zones.
        with self._lock:
            if region not in self._zones:
                self._zones[region] = zones_of.zone_ids(self._session(region, "ec2"))
            return self._zones[region]


def kin(facts: InstanceType, instances: Mapping[str, InstanceType]) -> tuple[str, ...]:
    """Types for one spot placement score: with as many chips of the same maker's family.

    >>> from launcher.catalog.load import load
    >>> types = load().instance_types
    >>> kin(types["p5.48xlarge"], types)
    ('p5.48xlarge', 'p5e.48xlarge', 'p5en.48xlarge')
    """
    letters = facts.family.rstrip("abcdefghijklmnopqrstuvwxyz")
    same = sorted(
        instance.name
        for instance in instances.values()
        if instance.family.rstrip("abcdefghijklmnopqrstuvwxyz") == letters
        and instance.accelerators == facts.accelerators
        and "spot" in instance.usage_classes
    )
    return tuple(same) if facts.name in same else ()


def _bind(ask: Callable[..., Sequence[CapacityOffer]], *arguments: object) -> Callable[[], Sequence[CapacityOffer]]:
    return lambda: ask(*arguments)


def _try_ask(ask: Callable[[], Sequence[CapacityOffer]]) -> Sequence[CapacityOffer] | AwsError:
    """The result of a request, or its error; missing credentials end the search."""
    try:
        return ask()
    except CredentialsError:
        raise
    except AwsError as problem:
        return problem


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
