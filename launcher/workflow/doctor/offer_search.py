"""The questions of `capacity` to AWS: offers and reservations of each type in each region, asked at once."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
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
    CapacityOffer,
    CapacityRequest,
    OfferKind,
)
from launcher.model.enums import PurchaseOption
from launcher.model.errors import AwsError
from launcher.model.instance_type import InstanceType
from launcher.pricing.blocks import (
    BLOCK_LOST_H,
    DAILY_UP_TO,
    HOURS_A_DAY,
    LEAD_WEEKS,
    LONGEST_DAYS,
    PLAN_LOST_H,
    block_days,
)

AT_ONCE = 8
LENGTHS = 4
"""Number of lengths to query: the shortest that fits the job, and the next ones, which may be cheaper or sooner."""
WEEK = timedelta(weeks=1)


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
