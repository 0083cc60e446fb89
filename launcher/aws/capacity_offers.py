"""Current capacity offers of EC2 and SageMaker; nothing is bought."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from launcher.aws.calls import RefusedPriceError, dollars, failed_with, items
from launcher.aws.session import Session
from launcher.model.capacity import CapacityOffer, CapacityRequest, OfferKind
from launcher.model.errors import AwsError
from launcher.model.hyperpod import ml_name

MAX_REGIONS = 10
"""Limit of one GetSpotPlacementScores call (EC2 API reference)."""
MIN_TYPES = 3
"""Minimum number of types: with one or two, the score is always low (EC2 API reference, GetSpotPlacementScores)."""


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
