"""Capacity Block offerings, as the rate of an instance-hour."""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from launcher.aws.calls import RefusedPriceError, dollars, items
from launcher.aws.session import Session
from launcher.catalog.fetched_prices import Answer, FetchedPrice, Refusal, answer
from launcher.catalog.selector import Key

DURATIONS_H = (24, 168)
"""Lengths that are asked for, in this order: a day, and a week where no single day is to be had."""
AHEAD = timedelta(weeks=8)
"""How far ahead blocks are sold (EC2 user guide, Capacity Blocks)."""
PLACES = Decimal("0.000001")
ULTRASERVER = "u-"
"""How the names of UltraServers begin; they are sold whole."""
LOCAL = "local-zone"


def capacity_blocks(session: Session, instance_type: str, count: int, now: datetime) -> Answer:
    """The rate of blocks of a type that start within eight weeks in the session's region; of several the dearest.

    A local zone has a rate of its own. Rate = fee / (hours x instances).

    Args:
        session: of the region.
        instance_type: an EC2 type, or an UltraServer, whose rate is for the whole of it.
        count: instances (or UltraServers) of the block, a size that is sold.
        now: the earliest start.

    Raises:
        AwsError: a call failed, or its answer is not whole.
    """
    for duration_h in DURATIONS_H:
        offerings = _offerings(session, instance_type, count, duration_h, now)
        if offerings:
            return _rates(offerings, instance_type, session.region)
    return Answer(rates=())


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


def _rates(offerings: list[Any], instance_type: str, region: str) -> Answer:
    rates, refusals = [], []
    for each in offerings:
        zone = each.get("AvailabilityZone", "") if each.get("ZoneType") == LOCAL else ""
        key = Key("capacity-block", instance_type, region, zone)
        begins = each.get("StartDate")
        try:
            fee = dollars(each.get("UpfrontFee"), each.get("CurrencyCode"))
            usd = (fee / _instance_hours(each, instance_type)).quantize(PLACES)
        except RefusedPriceError as problem:
            refusals.append(Refusal(key=key, reason=str(problem)))
            continue
        note = f"offered from {begins:%Y-%m-%d %H:%M} UTC" if begins else ""
        rates.append(FetchedPrice(key=key, usd=usd, note=note))
    return answer(rates, refusals)


def _instance_hours(offering: Mapping[str, Any], instance_type: str) -> Decimal:
    """The instance-hours (or UltraServer-hours) that a fee pays for, segment by segment where there are some."""
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
