"""On-demand capacity reservations, which moto lacks: their creation, and the instances that run in them.

Emulated, after botocore 1.44.5 (ec2/2016-11-15 service-2.json) and the EC2 user guide (Capacity Reservations):
CreateCapacityReservation, active immediately and without an end. An on-demand instance runs in an open reservation of
its type and zone with free capacity, unless it names another one. Not emulated: dates, tenancy, the cost of instances.
"""

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from moto.core.responses import ActionResult
from moto.core.utils import get_service_model
from moto.ec2.exceptions import InvalidParameterValueError, MissingParameterError
from moto.ec2.models.availability_zones_and_regions import RegionsAndZonesBackend
from moto.ec2.models.instances import InstanceBackend
from moto.ec2.responses import EC2Response

_LIVING = ("pending", "running", "stopping")


@dataclass(frozen=True, slots=True, kw_only=True)
class OnDemandReservation:
    """A reservation; `match` is open or targeted."""

    id: str
    instance_type: str
    platform: str
    zone: str
    count: int
    match: str
    made_at: datetime


def running_in(backend: Any, identifier: str) -> int:
    """The number of instances that run in a reservation of any kind."""
    return sum(
        instance.state in _LIVING and getattr(instance, "capacity_reservation_id", None) == identifier
        for instance in backend.all_instances()
    )


def refusal(backend: Any, identifier: str, instance_type: str, zone: str) -> str:
    """Why no further instance starts in an on-demand reservation that it names; empty for another id, or if one can.

    The messages are those of EC2's error codes ReservationCapacityExceeded and InvalidParameterValue.
    """
    named = next((reservation for reservation in _reservations(backend) if reservation.id == identifier), None)
    if named is None:
        return ""
    if (named.instance_type, named.zone) != (instance_type, zone):
        return (
            f"The Capacity Reservation {identifier} is for {named.instance_type} in {named.zone}, the request for"
            f" {instance_type} in {zone}"
        )
    if running_in(backend, identifier) >= named.count:
        return (
            "The targeted Capacity Reservation does not have enough available instance capacity to fulfill your request"
        )
    return ""


def describe_reservations(backend: Any) -> dict[str, dict[str, Any]]:
    """The on-demand reservations of an account and region, as EC2 describes them, by their ids."""
    zones = {zone.name: zone.zone_id for zone in RegionsAndZonesBackend.zones[backend.region_name]}
    return {
        reservation.id: {
            "CapacityReservationId": reservation.id,
            "OwnerId": backend.account_id,
            "AvailabilityZone": reservation.zone,
            "AvailabilityZoneId": zones[reservation.zone],
            "InstanceType": reservation.instance_type,
            "InstancePlatform": reservation.platform,
            "Tenancy": "default",
            "TotalInstanceCount": reservation.count,
            "AvailableInstanceCount": reservation.count - running_in(backend, reservation.id),
            "State": "active",
            "StartDate": reservation.made_at,
            "EndDateType": "unlimited",
            "InstanceMatchCriteria": reservation.match,
            "ReservationType": "default",
        }
        for reservation in _reservations(backend)
    }


def create_capacity_reservation(response: Any) -> ActionResult:
    """Reserve instances of a type in a zone.

    Raises:
        MissingParameterError: type, platform, count or zone is not named.
        InvalidParameterValueError: the platform, the match criteria or the zone is not in the service's model.
    """
    parameter, backend = response._get_param, response.ec2_backend  # noqa: SLF001  the way moto's own responses read
    zones = {zone.zone_id: zone.name for zone in RegionsAndZonesBackend.zones[backend.region_name]}
    request = {name: parameter(name) for name in ("InstanceType", "InstancePlatform", "InstanceCount")}
    request["AvailabilityZone"] = parameter("AvailabilityZone") or zones.get(str(parameter("AvailabilityZoneId")))
    for name, value in request.items():
        if not value:
            raise MissingParameterError(name)
    match = parameter("InstanceMatchCriteria") or "open"
    options_given = {
        "InstancePlatform": get_service_model("ec2").shape_for("CapacityReservationInstancePlatform").enum,
        "InstanceMatchCriteria": ("open", "targeted"),
        "AvailabilityZone": tuple(zones.values()),
    }
    for name, values in options_given.items():
        value = {**request, "InstanceMatchCriteria": match}[name]
        if value not in values:
            raise InvalidParameterValueError(f"({value}) for parameter {name}")
    reservation = OnDemandReservation(
        id=f"cr-{secrets.token_hex(9)[:17]}",
        instance_type=request["InstanceType"],
        platform=request["InstancePlatform"],
        zone=request["AvailabilityZone"],
        count=int(request["InstanceCount"]),
        match=match,
        made_at=datetime.now(UTC).replace(microsecond=0),
    )
    _reservations(backend).append(reservation)
    return ActionResult({"CapacityReservation": describe_reservations(backend)[reservation.id]})


def _reservations(backend: Any) -> list[OnDemandReservation]:
    reservations: list[OnDemandReservation] = vars(backend).setdefault("on_demand_reservations", [])
    return reservations


def _fitting(backend: Any, instance: Any) -> Iterator[str]:
    for reservation in _reservations(backend):
        fits = (reservation.instance_type, reservation.zone) == (instance.instance_type, instance.placement.zone)
        if fits and reservation.match == "open" and running_in(backend, reservation.id) < reservation.count:
            yield reservation.id


def install() -> None:
    """Add the call to moto's EC2, and make its instances run in open reservations."""
    run_instances = InstanceBackend.run_instances

    def run_in_reservations(backend: Any, *arguments: Any, **options: Any) -> Any:
        created = run_instances(backend, *arguments, **options)
        instances: list[Any] = created.instances
        for instance in instances:
            target = getattr(instance, "capacity_reservation_id", None)
            instance.capacity_reservation_id = target or (
                None if instance.lifecycle else next(_fitting(backend, instance), None)
            )
        return created

    setattr(InstanceBackend, run_instances.__name__, run_in_reservations)
    setattr(EC2Response, create_capacity_reservation.__name__, create_capacity_reservation)
