"""Capacity that an account has reserved, as EC2 describes it."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from launcher.aws.calls import items, unless_absent
from launcher.aws.session import Session

_ABSENT = frozenset(("InvalidCapacityReservationId.NotFound", "InvalidCapacityReservationId.Malformed"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservationState:
    """One capacity reservation or Capacity Block: its type, zone id, window, state, and total and unused instances."""

    id: str
    instance_type: str
    az_id: str
    state: str
    block: bool
    total: int
    available: int
    starts_at: datetime | None
    ends_at: datetime | None


def reservation(session: Session, identifier: str) -> ReservationState | None:
    """One capacity reservation by its id; None if the account has none with this id in the session's region."""
    ask, subject = session.client("ec2").describe_capacity_reservations, f"describe reservation {identifier}"
    answer = unless_absent(ask, subject, _ABSENT, CapacityReservationIds=[identifier])
    described = [] if answer is None else answer["CapacityReservations"]
    return _state(described[0]) if described else None


def reservations(session: Session, instance_type: str) -> tuple[ReservationState, ...]:
    """Every reservation of a type in the session's region that has not ended."""
    listed = items(
        session.client("ec2").describe_capacity_reservations,
        f"reservations of {instance_type} in {session.region}",
        "CapacityReservations",
        Filters=[
            {"Name": "instance-type", "Values": [instance_type]},
            {"Name": "state", "Values": ["active", "scheduled", "payment-pending"]},
        ],
    )
    return tuple(_state(entry) for entry in listed)


def _state(raw: dict[str, Any]) -> ReservationState:
    return ReservationState(
        id=str(raw["CapacityReservationId"]),
        instance_type=str(raw["InstanceType"]),
        az_id=str(raw.get("AvailabilityZoneId", "")),
        state=str(raw["State"]),
        block=raw.get("ReservationType") == "capacity-block",
        total=int(raw.get("TotalInstanceCount", 0)),
        available=int(raw.get("AvailableInstanceCount", 0)),
        starts_at=raw.get("StartDate"),
        ends_at=raw.get("EndDate"),
    )
