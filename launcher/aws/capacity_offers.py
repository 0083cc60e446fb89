"""Current capacity offers of EC2 and SageMaker; nothing is bought."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from launcher.aws.calls import RefusedPriceError, dollars, failed_with, items
from launcher.aws.session import Session
from launcher.catalog.fetched_prices import FetchedPrice, FetchedPrices, Refusal, answer
from launcher.catalog.selector import Key
from launcher.model.capacity import CapacityOffer, CapacityRequest, OfferKind
from launcher.model.errors import AwsError
from launcher.model.hyperpod import ml_name

DURATIONS_H = (24, 168)
"""Lengths to request, in this order: a day, then a week if no single day is available."""
AHEAD = timedelta(weeks=8)
"""How far ahead EC2 sells blocks (EC2 user guide, Capacity Blocks)."""
PLACES = Decimal("0.000001")
ULTRASERVER = "u-"
"""Prefix of the names of UltraServers; EC2 sells only complete UltraServers."""
LOCAL = "local-zone"
MAX_REGIONS = 10
"""Limit of one GetSpotPlacementScores call (EC2 API reference)."""
MIN_TYPES = 3
"""Minimum number of types: with one or two, the score is always low (EC2 API reference, GetSpotPlacementScores)."""


def capacity_blocks(session: Session, instance_type: str, count: int, now: datetime) -> FetchedPrices:
    """The highest rate of blocks of a type that start within eight weeks in the session's region.

    A local zone has its own rate. Rate = fee / (hours x instances). `instance_type` may be an UltraServer, whose rate
    is for the complete UltraServer; `count` is a size that EC2 sells.

    Raises:
        AwsError: a call failed, or its answer is incomplete.
    """
    for duration_h in DURATIONS_H:
        offerings = _offerings(session, instance_type, count, duration_h, now)
        if offerings:
            return _rates(offerings, instance_type, session.region)
    return FetchedPrices(rates=())


def _offerings(session: Session, instance_type: str, count: int, duration_h: int, now: datetime) -> list[Any]:
    size: dict[str, Any] = {"InstanceType": instance_type, "InstanceCount": count}
    if instance_type.startswith(ULTRASERVER):
        size = {"UltraserverType": instance_type, "UltraserverCount": count}
    return items(
        session.client("ec2").describe_capacity_block_offerings,
        f"Capacity Blocks of {instance_type} in {session.region}",
        "CapacityBlockOfferings",
        CapacityDurationHours=duration_h,
        StartDateRange=now,
        EndDateRange=now + AHEAD + timedelta(hours=duration_h),
        AllAvailabilityZones=True,
        **size,
    )


def _rates(offerings: list[Any], instance_type: str, region: str) -> FetchedPrices:
    rates, refusals = [], []
    for offering in offerings:
        zone = offering.get("AvailabilityZone", "") if offering.get("ZoneType") == LOCAL else ""
        key = Key("capacity-block", instance_type, region, zone)
        begins = offering.get("StartDate")
        try:
            fee = dollars(offering.get("UpfrontFee"), offering.get("CurrencyCode"))
            usd = (fee / _instance_hours(offering, instance_type)).quantize(PLACES)
        except RefusedPriceError as problem:
            refusals.append(Refusal(key=key, reason=str(problem)))
            continue
        note = f"offered from {begins:%Y-%m-%d %H:%M} UTC" if begins else ""
        rates.append(FetchedPrice(key=key, usd=usd, note=note))
    return answer(rates, refusals)


def _instance_hours(offering: Mapping[str, Any], instance_type: str) -> Decimal:
    """The instance-hours (or UltraServer-hours) that a fee pays for, segment by segment if it has segments."""
    total = sum(_parts(offering, instance_type), Decimal(0))
    if total <= 0:
        raise RefusedPriceError("the offering states no length or no size")
    return total


def _parts(offering: Mapping[str, Any], instance_type: str) -> Iterator[Decimal]:
    whole = instance_type.startswith(ULTRASERVER)
    for part in (not whole and offering.get("CapacityBlockOfferingSegments")) or (offering,):
        if not whole and part.get("InstanceType", instance_type) != instance_type:
            raise RefusedPriceError(f"the offering is of {part['InstanceType']} too")
        minutes = part.get("CapacityBlockDurationHours", 0) * 60 + part.get("CapacityBlockDurationMinutes", 0)
        count = part.get("UltraserverCount" if whole else "InstanceCount", 0)
        yield Decimal(minutes) / 60 * count


def block_offers(
    session: Session, capacity_request: CapacityRequest, zones: Mapping[str, str]
) -> tuple[CapacityOffer, ...]:
    """Capacity Blocks in the session's region that match a wish.

    The wish has a number of instances and a length that EC2 sells; `zones` are zone ids by zone name.

    Raises:
        AwsError: a call failed, or its answer is incomplete.
    """
    offerings = items(
        session.client("ec2").describe_capacity_block_offerings,
        f"Capacity Blocks of {capacity_request.text} in {session.region}",
        "CapacityBlockOfferings",
        InstanceType=capacity_request.instance_type,
        InstanceCount=capacity_request.count,
        CapacityDurationHours=capacity_request.hours,
        StartDateRange=capacity_request.earliest,
        EndDateRange=capacity_request.latest,
        AllAvailabilityZones=True,
    )
    return tuple(_blocks(offerings, session.region, capacity_request.instance_type, zones))


def _blocks(
    offerings: Sequence[Mapping[str, Any]], region: str, instance_type: str, zones: Mapping[str, str]
) -> Iterator[CapacityOffer]:
    """Offers of this type only: an offer with segments of other types does not match the request."""
    for offering, fee in _with_fee(offerings):
        parts = offering.get("CapacityBlockOfferingSegments") or (offering,)
        if any(part.get("InstanceType", instance_type) != instance_type for part in parts):
            continue
        yield CapacityOffer(
            kind=OfferKind.CAPACITY_BLOCK,
            id=str(offering["CapacityBlockOfferingId"]),
            region=region,
            az_id=_zone(parts, zones),
            instance_type=instance_type,
            count=int(offering.get("InstanceCount", 0)),
            starts_at=offering.get("StartDate"),
            ends_at=offering.get("EndDate"),
            fee_usd=fee,
        )


def _with_fee(offerings: Iterable[Mapping[str, Any]]) -> Iterator[tuple[Mapping[str, Any], Decimal]]:
    """The offerings with a fee in dollars, each with the fee."""
    for offering in offerings:
        try:
            fee = dollars(offering.get("UpfrontFee"), offering.get("CurrencyCode"))
        except RefusedPriceError:
            continue
        yield offering, fee


def _zone(parts: Iterable[Mapping[str, Any]], zones: Mapping[str, str]) -> str | None:
    """The zone id of an offering's parts; None if they are in several zones."""
    names = {str(part.get("AvailabilityZone", "")) for part in parts}
    return zones.get(names.pop()) if len(names) == 1 else None


def extension_offers(session: Session, reservation: str, hours: int) -> tuple[CapacityOffer, ...]:
    """The available extensions of a Capacity Block."""
    offerings = items(
        session.client("ec2").describe_capacity_block_extension_offerings,
        f"extensions of {reservation}",
        "CapacityBlockExtensionOfferings",
        CapacityReservationId=reservation,
        CapacityBlockExtensionDurationHours=hours,
    )
    return tuple(
        CapacityOffer(
            kind=OfferKind.EXTENSION,
            id=str(offering["CapacityBlockExtensionOfferingId"]),
            region=session.region,
            az_id=offering.get("AvailabilityZoneId"),
            instance_type=str(offering["InstanceType"]),
            count=int(offering["InstanceCount"]),
            starts_at=offering.get("CapacityBlockExtensionStartDate"),
            ends_at=offering.get("CapacityBlockExtensionEndDate"),
            fee_usd=dollars(offering.get("UpfrontFee"), offering.get("CurrencyCode")),
            reservation=reservation,
        )
        for offering in offerings
    )


def plan_offers(
    session: Session, capacity_request: CapacityRequest, zones: Mapping[str, str], planned_for: str
) -> tuple[CapacityOffer, ...]:
    """Training plans that match a wish; empty if SageMaker has no plans for the type in the region.

    The wish has a length that SageMaker sells (matched exactly); `zones` are zone ids by zone name; a plan serves only
    the resource `planned_for`.
    """
    try:
        offerings = items(
            session.client("sagemaker").search_training_plan_offerings,
            f"training plans of {capacity_request.text} in {session.region}",
            "TrainingPlanOfferings",
            InstanceType=ml_name(capacity_request.instance_type),
            InstanceCount=capacity_request.count,
            StartTimeAfter=capacity_request.earliest,
            EndTimeBefore=capacity_request.latest,
            DurationHours=capacity_request.hours,
            TargetResources=[planned_for],
        )
    except AwsError as problem:
        if failed_with(problem, code="ValidationException", phrase="instance type"):
            return ()
        raise
    return tuple(_plans(offerings, session.region, capacity_request.instance_type, zones))


def _plans(
    offerings: Sequence[Mapping[str, Any]], region: str, instance_type: str, zones: Mapping[str, str]
) -> Iterator[CapacityOffer]:
    """The plans as offers. One of several parts runs from first begin to last end; in several zones it has no zone."""
    for offering, fee in _with_fee(offerings):
        parts = offering.get("ReservedCapacityOfferings", ())
        if not parts:
            continue
        yield CapacityOffer(
            kind=OfferKind.TRAINING_PLAN,
            id=str(offering["TrainingPlanOfferingId"]),
            region=region,
            az_id=_zone(parts, zones),
            instance_type=instance_type,
            count=max(int(part.get("InstanceCount", 0)) for part in parts),
            starts_at=min((part["StartTime"] for part in parts if "StartTime" in part), default=None),
            ends_at=max((part["EndTime"] for part in parts if "EndTime" in part), default=None),
            fee_usd=fee,
        )


def placement_scores(
    session: Session, types: Sequence[str], vcpus: int, regions: Sequence[str]
) -> tuple[tuple[str, str, int], ...]:
    """The likelihood that spot requests succeed: region, zone id and score from 1 to 10; not a guarantee.

    At least MIN_TYPES types, any of which is acceptable; at most MAX_REGIONS regions; `vcpus` is the total.
    """
    scores = items(
        session.client("ec2").get_spot_placement_scores,
        f"spot placement scores of {', '.join(types)}",
        "SpotPlacementScores",
        InstanceTypes=list(types),
        TargetCapacity=vcpus,
        TargetCapacityUnitType="vcpu",
        SingleAvailabilityZone=True,
        RegionNames=list(regions),
    )
    return tuple(
        (str(score["Region"]), str(score.get("AvailabilityZoneId", "")), int(score["Score"])) for score in scores
    )
