"""What to ask AWS for a plan's capacity: questions asked side by side, each answered whole or named as missing."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from threading import Lock

from launcher.aws import regions as zones_of
from launcher.aws.capacity_offers import (
    LEAST_TYPES,
    MOST_REGIONS,
    block_offers,
    extension_offers,
    placement_scores,
    plan_offers,
)
from launcher.aws.clients import Sessions
from launcher.aws.reservations import reservations
from launcher.aws.session import CredentialsError, Session
from launcher.model.capacity import CapacityOffer, CapacityWish, OfferKind
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
"""Lengths that are asked for: the shortest that holds the job, and the next ones, which may be cheaper or sooner."""
WEEK = timedelta(weeks=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Machines that the plan could run on: a type, how many, the job's hours, ways of buying and regions to look in."""

    instance_type: str
    count: int
    hours: float
    hours_high: float
    options: frozenset[PurchaseOption]
    regions: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """Offers, and what could not be asked: the question with the reason."""

    offers: tuple[CapacityOffer, ...]
    unanswered: tuple[tuple[str, str], ...]


@dataclass(frozen=True, kw_only=True)
class Search:
    """One search: the clients, the moment, the latest end that is allowed, and what exists."""

    sessions: Sessions
    now: datetime
    until: datetime | None
    instances: Mapping[str, InstanceType]
    _zones: dict[str, Mapping[str, str]] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def run(self, wanted: Sequence[Wanted]) -> Answers:
        """Everything that can be had for any of these machines.

        Raises:
            CredentialsError: there are no credentials, or they have run out.
        """
        questions = [(what, ask) for each in wanted for what, ask in self._questions(each)]
        offers: list[CapacityOffer] = []
        unanswered = []
        with ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
            for (what, _), answer in zip(questions, pool.map(lambda each: _tried(each[1]), questions), strict=True):
                if isinstance(answer, AwsError):
                    unanswered.append((what, answer.message))
                else:
                    offers += answer
        return Answers(offers=tuple(dict.fromkeys(offers)), unanswered=tuple(unanswered))

    def _questions(self, wanted: Wanted) -> Iterator[tuple[str, Callable[[], Sequence[CapacityOffer]]]]:
        name, count = wanted.instance_type, wanted.count
        for region in wanted.regions:
            if PurchaseOption.CAPACITY_BLOCK in wanted.options:
                for wish in self._wishes(wanted, BLOCK_LOST_H):
                    yield f"Capacity Blocks of {wish.words} in {region}", _bound(self._blocks, region, wish)
            if PurchaseOption.TRAINING_PLAN in wanted.options:
                for wish in self._wishes(wanted, PLAN_LOST_H):
                    yield f"training plans of {wish.words} in {region}", _bound(self._plans, region, wish)
            yield f"reservations of {name} in {region}", _bound(self._held, region, name, wanted)
            if PurchaseOption.ON_DEMAND in wanted.options:
                yield f"zones of {region} that offer {name}", _bound(self._offered, region, name, count)
        if PurchaseOption.SPOT in wanted.options:
            for start in range(0, len(wanted.regions), MOST_REGIONS):
                some = wanted.regions[start : start + MOST_REGIONS]
                yield f"spot placement scores of {name}", _bound(self._scores, name, count, some)

    def _wishes(self, wanted: Wanted, lost_h: float) -> Iterator[CapacityWish]:
        """Lengths that hold the job, each in the whole time that is sold ahead, the shortest week by week as well.

        EC2 answers with the earliest of a window: later starts, which can be cheaper, need windows of their own.
        """
        days = block_days(wanted.hours, lost_h)
        last = self.now + LEAD_WEEKS * WEEK
        for index, length in enumerate(_lengths(days)):
            hours = int(length * HOURS_A_DAY)
            end = last + timedelta(hours=hours)
            latest = min(end, self.until) if self.until is not None else end
            starts = [self.now + week * WEEK for week in range(LEAD_WEEKS)] if index == 0 else [self.now]
            for start in starts:
                if start + timedelta(hours=hours) <= latest:
                    yield CapacityWish(
                        instance_type=wanted.instance_type,
                        count=wanted.count,
                        hours=hours,
                        earliest=start,
                        latest=latest,
                    )

    def _blocks(self, region: str, wish: CapacityWish) -> Sequence[CapacityOffer]:
        return block_offers(self._session(region, "ec2"), wish, self._zone_ids(region))

    def _plans(self, region: str, wish: CapacityWish) -> Sequence[CapacityOffer]:
        return plan_offers(self._session(region, "sagemaker"), wish, self._zone_ids(region))

    def _held(self, region: str, name: str, wanted: Wanted) -> Sequence[CapacityOffer]:
        """What the account has, and for a block that ends before the job what makes it longer."""
        session, found = self._session(region, "ec2"), []
        for each in reservations(session, name):
            held = CapacityOffer(
                kind=OfferKind.RESERVATION,
                id=each.id,
                region=region,
                az_id=each.az_id or None,
                instance_type=name,
                count=each.available if each.state == "active" else each.total,
                starts_at=each.starts_at,
                ends_at=each.ends_at,
                fee_usd=Decimal(0) if each.block else None,
            )
            found.append(held)
            if each.block and each.ends_at is not None:
                left_h = (each.ends_at - max(self.now, each.starts_at or self.now)).total_seconds() / 3600
                missing = wanted.hours_high - (left_h - BLOCK_LOST_H)
                days = block_days(missing, 0.0) if missing > 0 else None
                if days is not None:
                    found += extension_offers(session, each.id, int(days * HOURS_A_DAY))
        return found

    def _offered(self, region: str, name: str, count: int) -> Sequence[CapacityOffer]:
        return [
            CapacityOffer(kind=OfferKind.ON_DEMAND, id=None, region=region, az_id=zone, instance_type=name, count=count)
            for zone in sorted(zones_of.offering_zones(self._session(region, "ec2"), name))
        ]

    def _scores(self, name: str, count: int, regions: Sequence[str]) -> Sequence[CapacityOffer]:
        """One offer a zone; a type with fewer than two kin is not asked for: its score would always be low."""
        pool = kin(self.instances[name], self.instances)
        if len(pool) < LEAST_TYPES:
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
        with self._lock:
            if region not in self._zones:
                self._zones[region] = zones_of.zone_ids(self._session(region, "ec2"))
            return self._zones[region]


def kin(facts: InstanceType, instances: Mapping[str, InstanceType]) -> tuple[str, ...]:
    """Types that a spot placement score is asked for together with one: as many chips, of the same maker's family.

    >>> from launcher.catalog.load import load
    >>> types = load().instance_types
    >>> kin(types["p5.48xlarge"], types)
    ('p5.48xlarge', 'p5e.48xlarge', 'p5en.48xlarge')
    """
    letters = facts.family.rstrip("abcdefghijklmnopqrstuvwxyz")
    same = sorted(
        each.name
        for each in instances.values()
        if each.family.rstrip("abcdefghijklmnopqrstuvwxyz") == letters
        and each.accelerators == facts.accelerators
        and "spot" in each.usage_classes
    )
    return tuple(same) if facts.name in same else ()


def _lengths(days: int | None) -> list[int]:
    """The shortest length and the next ones that are sold, in days."""
    sold = [*range(1, DAILY_UP_TO + 1), *range(DAILY_UP_TO + 7, LONGEST_DAYS + 1, 7)]
    return [each for each in sold if days is not None and each >= days][:LENGTHS]


def _bound(ask: Callable[..., Sequence[CapacityOffer]], *words: object) -> Callable[[], Sequence[CapacityOffer]]:
    return lambda: ask(*words)


def _tried(ask: Callable[[], Sequence[CapacityOffer]]) -> Sequence[CapacityOffer] | AwsError:
    """An answer, or why there is none; without credentials there is no point in going on."""
    try:
        return ask()
    except CredentialsError:
        raise
    except AwsError as problem:
        return problem
