"""Offerings of Capacity Blocks and training plans, which moto lacks, as the vendor's models describe them.

Emulated, after botocore 1.44.5 (ec2/2016-11-15, sagemaker/2017-07-24 service-2.json) and the EC2 and SageMaker guides:
DescribeCapacityBlockOfferings and SearchTrainingPlanOfferings with their errors, and one offering for each search:
the earliest of its window, from 11:30 to 11:30 UTC, within eight weeks, at the rate of the catalog; none for a type
without a rate in the region. The purchase is in capacity_blocks.py. Not emulated: segments of several types, sold-out
capacity.
"""

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal
from functools import cache
from typing import Any

from moto.core.responses import ActionResult
from moto.core.utils import get_service_model
from moto.ec2.exceptions import InvalidParameterCombination, InvalidParameterValueError, MissingParameterError
from moto.ec2.responses import EC2Response
from moto.sagemaker.exceptions import ValidationError
from moto.sagemaker.responses import SageMakerResponse

from launcher.catalog.load import load
from launcher.model.enums import PurchaseOption
from launcher.model.money import Price
from launcher.pricing.blocks import DAILY_UP_TO, LEAD_WEEKS, LONGEST_DAYS
from launcher.sandbox.cluster.training_plan import TARGET

MAX_INSTANCES = 64
"""Maximum number of instances of one block (DescribeCapacityBlockOfferings)."""
TARGETS = frozenset({"training-job", TARGET, "endpoint", "studio-apps"})
"""Values of SageMakerResourceName."""
TURN = time(11, 30, tzinfo=UTC)
"""The time of day when blocks begin and end (EC2 user guide, Capacity Blocks for ML)."""
MIN_NOTICE = timedelta(minutes=30)


@cache
def _planned_types() -> frozenset[str]:
    """The instance types of training plans: ReservedCapacityInstanceType of botocore's model of SageMaker."""
    return frozenset(get_service_model("sagemaker").shape_for("ReservedCapacityInstanceType").enum)


def describe_capacity_block_offerings(response: Any) -> ActionResult:
    """The earliest block for a type, a number of instances and a length, in a window.

    Raises:
        MissingParameterError: no length is named.
        InvalidParameterCombination: no type or several types, or instances of an UltraServer.
        InvalidParameterValueError: the length or the number of instances is not sold.
    """
    hours = integer(response, "CapacityDurationHours")
    if hours is None:
        raise MissingParameterError("CapacityDurationHours")
    if not is_sold(hours):
        raise InvalidParameterValueError(f"({hours}) for parameter CapacityDurationHours")
    preferred = response._get_param("InstanceTypePreferences") or []  # noqa: SLF001  the way moto's own responses read
    name, ultraserver = (response._get_param(key) for key in ("InstanceType", "UltraserverType"))  # noqa: SLF001
    if bool(name) + bool(ultraserver) + bool(preferred) != 1:
        raise InvalidParameterCombination("Specify one of InstanceType, InstanceTypePreferences and UltraserverType.")
    if preferred:
        name = preferred[0]["InstanceType"] if isinstance(preferred[0], dict) else preferred[0]
    key = "UltraserverCount" if ultraserver else "InstanceCount"
    count = integer(response, key)
    count = 1 if count is None else count
    if not 1 <= count <= MAX_INSTANCES:
        raise InvalidParameterValueError(f"({count}) for parameter {key}")
    backend = response.ec2_backend
    offered = _offer_window(
        str(name or ultraserver),
        backend.region_name,
        hours,
        (_moment(response, "StartDateRange"), _moment(response, "EndDateRange")),
    )
    if offered is None:
        return ActionResult({"CapacityBlockOfferings": []})
    starts_at, ends_at, rate = offered
    sized = {"UltraserverType": ultraserver, "UltraserverCount": count} if ultraserver else {"InstanceType": name}
    key, zone = f"cb-{short_id(name or ultraserver, count, hours, starts_at)}", f"{backend.region_name}a"
    by_key = offered_blocks(response)
    by_key.setdefault(key, Offered(str(name or ultraserver), count, zone, starts_at, ends_at, rate))
    if by_key[key].bought:
        return ActionResult({"CapacityBlockOfferings": []})
    offering = {
        "CapacityBlockOfferingId": key,
        **sized,
        "InstanceCount": count,
        "AvailabilityZone": zone,
        "StartDate": starts_at,
        "EndDate": ends_at,
        "CapacityBlockDurationHours": hours,
        "UpfrontFee": fee_text(rate, hours, count),
        "CurrencyCode": "USD",
        "Tenancy": "default",
        "ZoneType": "availability-zone",
    }
    return ActionResult({"CapacityBlockOfferings": [offering]})


def search_training_plan_offerings(response: Any) -> ActionResult:
    """The earliest training plan for a type, a number of instances and a length, in a window.

    Raises:
        ValidationError: a type, a number or a target is not in the service's model.
    """
    name, arn = response._get_param("InstanceType"), response._get_param("TrainingPlanArn")  # noqa: SLF001
    hours, count = integer(response, "DurationHours"), integer(response, "InstanceCount")
    targets = response._get_param("TargetResources") or [TARGET]  # noqa: SLF001
    types = _planned_types()
    if name is not None and name not in types:
        raise _invalid("instanceType", name, f"enum value set: [{', '.join(sorted(types))}]")
    for target in targets:
        if target not in TARGETS:
            raise _invalid("targetResources", target, f"enum value set: [{', '.join(sorted(TARGETS))}]")
    if hours is not None and not 1 <= hours <= 87_600:  # noqa: PLR2004 - the model's TrainingPlanDurationHoursInput
        raise _invalid("durationHours", hours, "value between 1 and 87600")
    if count is not None and not 0 <= count <= 256:  # noqa: PLR2004 - the model's ReservedCapacityInstanceCount
        raise _invalid("instanceCount", count, "value between 0 and 256")
    offerings: list[dict[str, Any]] = []
    window = (_moment(response, "StartTimeAfter"), _moment(response, "EndTimeBefore"))
    region = response.sagemaker_backend.region_name
    if name and hours and count and arn is None and is_sold(hours):
        offered = _offer_window(name.removeprefix("ml."), region, hours, window, PurchaseOption.TRAINING_PLAN)
        if offered is not None:
            starts_at, ends_at, rate = offered
            capacity = {
                "ReservedCapacityType": "Instance",
                "InstanceType": name,
                "InstanceCount": count,
                "AvailabilityZone": f"{region}a",
                "DurationHours": hours,
                "DurationMinutes": 0,
                "StartTime": starts_at,
                "EndTime": ends_at,
            }
            offering = {
                "TrainingPlanOfferingId": f"tpo-{short_id(name, count, hours, starts_at, length=32)}",
                "TargetResources": targets,
                "RequestedStartTimeAfter": window[0],
                "RequestedEndTimeBefore": window[1],
                "DurationHours": hours,
                "DurationMinutes": 0,
                "UpfrontFee": fee_text(rate, hours, count),
                "CurrencyCode": "USD",
                "ReservedCapacityOfferings": [capacity],
            }
            offerings.append({key: value for key, value in offering.items() if value is not None})
    return ActionResult({"TrainingPlanOfferings": offerings})


@dataclass(slots=True)
class Offered:
    """An offered block, with its reservation and platform after the purchase; `rate` is in dollars an instance-hour."""

    instance_type: str
    count: int
    zone: str
    starts_at: datetime
    ends_at: datetime
    rate: Decimal
    bought: str = ""
    platform: str = ""


def offered_blocks(response: Any) -> dict[str, Offered]:
    """The offered blocks of an account and region, by the ids of their offerings."""
    offered: dict[str, Offered] = vars(response.ec2_backend).setdefault("offered_blocks", {})
    return offered


def fee_text(rate: Decimal, hours: int, count: int) -> str:
    """A fee in the format of both services."""
    return f"{rate * hours * count:.4f}"


def is_sold(hours: int) -> bool:
    """Whether an offering can have a length: in steps of a day up to 14 days, in steps of a week up to 182 days."""
    days, hours_over = divmod(hours, 24)
    return hours_over == 0 and (1 <= days <= DAILY_UP_TO or (days % 7 == 0 and days <= LONGEST_DAYS))


def _offer_window(
    name: str,
    region: str,
    hours: int,
    window: tuple[datetime | None, datetime | None],
    option: PurchaseOption = PurchaseOption.CAPACITY_BLOCK,
) -> tuple[datetime, datetime, Decimal] | None:
    now, catalog = datetime.now(UTC), load()
    after, before = window
    earliest = max(after or now, now + MIN_NOTICE)
    starts_at = datetime.combine(earliest.astimezone(UTC).date(), TURN)
    if starts_at < earliest:
        starts_at += timedelta(days=1)
    ends_at = starts_at + timedelta(hours=hours)
    if starts_at > now + timedelta(weeks=LEAD_WEEKS) or (before is not None and ends_at > before):
        return None
    price = catalog.training_plan(name, region) if option is PurchaseOption.TRAINING_PLAN else None
    if not isinstance(price, Price):
        price = catalog.capacity_block(name, region)
    return (starts_at, ends_at, price.usd) if isinstance(price, Price) else None


def integer(response: Any, name: str) -> int | None:
    """A parameter as a number; None if the request does not have it."""
    value = response._get_param(name)  # noqa: SLF001  the way moto's own responses read
    return None if value is None else int(value)


def _moment(response: Any, name: str) -> datetime | None:
    """A time of a request: an ISO text, or seconds since 1970."""
    value = response._get_param(name)  # noqa: SLF001  the way moto's own responses read
    if value is None or isinstance(value, datetime):
        return value if value is None or value.tzinfo else value.replace(tzinfo=UTC)
    try:
        return datetime.fromtimestamp(float(value), UTC)
    except ValueError:
        when = datetime.fromisoformat(str(value))
        return when if when.tzinfo else when.replace(tzinfo=UTC)


def short_id(*parts: object, length: int = 17) -> str:
    """The digits of an id; equal parts give equal ids."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:length]


def _invalid(key: str, value: object, allowed: str) -> ValidationError:
    """The error about a value that the service's model does not have."""
    message = (
        f"1 validation error detected: Value '{value}' at '{key}' failed to satisfy constraint: Member must satisfy"
    )
    return ValidationError(message=f"{message} {allowed}")


def install() -> None:
    """Add the calls to moto's EC2 and SageMaker."""
    setattr(EC2Response, describe_capacity_block_offerings.__name__, describe_capacity_block_offerings)
    setattr(SageMakerResponse, search_training_plan_offerings.__name__, search_training_plan_offerings)
