"""Purchased Capacity Blocks, which moto lacks: the purchase, its reservation and its extension.

Emulated, after botocore 1.44.5 (ec2/2016-11-15 service-2.json), the EC2 user guide (Capacity Blocks for ML) and the EC2
error codes: PurchaseCapacityBlock, DescribeCapacityReservations and DescribeCapacityBlockExtensionOfferings, with their
refusals. Nothing is paid. Not emulated: the state of the payment, the purchase of an extension.
"""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from moto.core.responses import ActionResult
from moto.core.utils import get_service_model
from moto.ec2.exceptions import EC2ClientError, InvalidParameterValueError, MissingParameterError
from moto.ec2.models.availability_zones_and_regions import RegionsAndZonesBackend
from moto.ec2.responses import EC2Response

from launcher.pricing.blocks import LONGEST_DAYS
from launcher.sandbox.aws import on_demand_reservations
from launcher.sandbox.aws.offerings import Offered, fee_text, integer, is_sold, offered_blocks, short_id

_Reservation = TypeVar("_Reservation")
_RESERVATION = re.compile(r"cr-[0-9a-f]{17}")
_FILTERS: dict[str, Callable[[dict[str, Any]], str]] = {
    "instance-type": lambda block: block["InstanceType"],
    "state": lambda block: block["State"],
    "availability-zone": lambda block: block["AvailabilityZone"],
}
"""Filters of DescribeCapacityReservations; the sandbox refuses the service's other filters."""


def purchase_capacity_block(response: Any) -> ActionResult:
    """Buy an offering once.

    Raises:
        MissingParameterError: no offering or no platform is named.
        InvalidParameterValueError: the platform is not in the service's model.
        EC2ClientError: the offering is unknown or already bought.
    """
    offering = _required_parameter(response, "CapacityBlockOfferingId")
    platform = _required_parameter(response, "InstancePlatform")
    if platform not in get_service_model("ec2").shape_for("CapacityReservationInstancePlatform").enum:
        raise InvalidParameterValueError(f"({platform}) for parameter InstancePlatform")
    if not re.fullmatch(r"cb-[0-9a-f]{17}", offering):
        raise EC2ClientError("InvalidCapacityBlockOfferingIdMalformed", f"The offering ID '{offering}' is malformed.")
    offered = offered_blocks(response).get(offering)
    if offered is None:
        raise EC2ClientError("InvalidCapacityBlockOfferingIdNotFound", f"The offering ID '{offering}' does not exist.")
    if offered.bought or offered.starts_at <= datetime.now(UTC):
        raise EC2ClientError("InvalidCapacityBlockOfferingIdExpired", f"The offering ID '{offering}' is not available.")
    offered.bought, offered.platform = f"cr-{short_id('cr', offering)}", platform
    return ActionResult({"CapacityReservation": _describe_block(response, offered)})


def describe_capacity_reservations(response: Any) -> ActionResult:
    """The purchased blocks, and the on-demand reservations.

    Raises:
        EC2ClientError: an id is malformed or unknown.
        InvalidParameterValueError: a filter is not emulated.
    """
    blocks = {
        offered_block.bought: _describe_block(response, offered_block)
        for offered_block in offered_blocks(response).values()
        if offered_block.bought
    }
    reservations = blocks | on_demand_reservations.describe_reservations(response.ec2_backend)
    ids = response._get_param("CapacityReservationIds") or []  # noqa: SLF001  the way moto's own responses read
    for reservation_id in ids:
        _find_reservation(reservations, reservation_id)
    matching = [reservation for key, reservation in reservations.items() if not ids or key in ids]
    for filter_ in response._get_param("Filters") or []:  # noqa: SLF001
        if filter_["Name"] not in _FILTERS:
            raise InvalidParameterValueError(f"({filter_['Name']}) for parameter Filter")
        matching = [block for block in matching if _FILTERS[filter_["Name"]](block) in filter_["Values"]]
    return ActionResult({"CapacityReservations": matching})


def describe_capacity_block_extension_offerings(response: Any) -> ActionResult:
    """One extension of a block, from the block's end on, at the block's rate; none beyond the longest length.

    Raises:
        MissingParameterError: no length or no block is named.
        InvalidParameterValueError: the length is not sold.
        EC2ClientError: the block is unknown.
    """
    hours, name = (
        integer(response, "CapacityBlockExtensionDurationHours"),
        _required_parameter(response, "CapacityReservationId"),
    )
    if hours is None:
        raise MissingParameterError("CapacityBlockExtensionDurationHours")
    if not is_sold(hours):
        raise InvalidParameterValueError(f"({hours}) for parameter CapacityBlockExtensionDurationHours")
    block = _find_reservation(
        {
            offered_block.bought: offered_block
            for offered_block in offered_blocks(response).values()
            if offered_block.bought
        },
        name,
    )
    ends_at = block.ends_at + timedelta(hours=hours)
    if ends_at - block.starts_at > timedelta(days=LONGEST_DAYS) or block.ends_at <= datetime.now(UTC):
        return ActionResult({"CapacityBlockExtensionOfferings": []})
    described = _describe_block(response, block)
    offering = {
        "CapacityBlockExtensionOfferingId": f"cbe-{short_id('cbe', name, hours)}",
        "InstanceType": block.instance_type,
        "InstanceCount": block.count,
        "AvailabilityZone": described["AvailabilityZone"],
        "AvailabilityZoneId": described["AvailabilityZoneId"],
        "StartDate": block.starts_at,
        "CapacityBlockExtensionStartDate": block.ends_at,
        "CapacityBlockExtensionEndDate": ends_at,
        "CapacityBlockExtensionDurationHours": hours,
        "UpfrontFee": fee_text(block.rate, hours, block.count),
        "CurrencyCode": "USD",
        "Tenancy": "default",
    }
    return ActionResult({"CapacityBlockExtensionOfferings": [offering]})


def _describe_block(response: Any, block: Offered) -> dict[str, Any]:
    backend, now = response.ec2_backend, datetime.now(UTC)
    zones = {zone.name: zone.zone_id for zone in RegionsAndZonesBackend.zones[backend.region_name]}
    state = "scheduled" if now < block.starts_at else "active" if now < block.ends_at else "expired"
    return {
        "CapacityReservationId": block.bought,
        "OwnerId": backend.account_id,
        "AvailabilityZone": block.zone,
        "AvailabilityZoneId": zones[block.zone],
        "InstanceType": block.instance_type,
        "InstancePlatform": block.platform,
        "Tenancy": "default",
        "TotalInstanceCount": block.count,
        "AvailableInstanceCount": block.count - on_demand_reservations.running_in(backend, block.bought)
        if state == "active"
        else 0,
        "State": state,
        "StartDate": block.starts_at,
        "EndDate": block.ends_at,
        "EndDateType": "limited",
        "InstanceMatchCriteria": "targeted",
        "ReservationType": "capacity-block",
    }


def _find_reservation(reservations: Mapping[str, _Reservation], name: str) -> _Reservation:
    if not _RESERVATION.fullmatch(name):
        raise EC2ClientError("InvalidCapacityReservationId.Malformed", f"The Capacity Reservation ID '{name}' is bad.")
    if name not in reservations:
        message = f"The Capacity Reservation ID '{name}' does not exist."
        raise EC2ClientError("InvalidCapacityReservationId.NotFound", message)
    return reservations[name]


def _required_parameter(response: Any, name: str) -> str:
    value = response._get_param(name)  # noqa: SLF001  the way moto's own responses read
    if not value:
        raise MissingParameterError(name)
    return str(value)


def install() -> None:
    """Add the calls to moto's EC2."""
    for call in (
        purchase_capacity_block,
        describe_capacity_reservations,
        describe_capacity_block_extension_offerings,
    ):
        setattr(EC2Response, call.__name__, call)
