"""Prices of Capacity Blocks, from what EC2 offers: a block has no list price."""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from launcher.aws.calls import RefusedPriceError, dollars, items
from launcher.aws.session import Session
from launcher.catalog.fetched_prices import FetchedPrice, FetchedPrices, Refusal, answer
from launcher.catalog.selector import Key

AHEAD = timedelta(weeks=8)
"""How far ahead EC2 sells blocks (EC2 user guide, Capacity Blocks)."""
PLACES = Decimal("0.000001")
ULTRASERVER = "u-"
"""Prefix of the names of UltraServers; EC2 sells only complete UltraServers."""
LOCAL = "local-zone"
DURATIONS_H = (24, 168)
"""Lengths to request, in this order: a day, then a week if no single day is available."""


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
