"""Purchased training plans of SageMaker."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from launcher.aws.session import Session, translate_errors


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingPlanState:
    """A training plan: its target resource, its window, its instances by SageMaker type and zone id, and its fee."""

    status: str
    targets: frozenset[str]
    starts_at: datetime | None
    ends_at: datetime | None
    instances: int
    types: frozenset[str]
    zones: frozenset[str]
    fee_usd: Decimal | None


def describe_training_plan(session: Session, arn: str) -> TrainingPlanState:
    """The state of a training plan."""
    with translate_errors(f"describe training plan {arn}"):
        description = session.client("sagemaker").describe_training_plan(TrainingPlanName=arn.rpartition("/")[2])
    parts = description.get("ReservedCapacitySummaries", ())
    fee = description.get("UpfrontFee")
    return TrainingPlanState(
        status=str(description["Status"]),
        targets=frozenset(description.get("TargetResources", ())),
        starts_at=description.get("StartTime"),
        ends_at=description.get("EndTime"),
        instances=int(description.get("TotalInstanceCount", 0)),
        types=frozenset(str(part["InstanceType"]) for part in parts if "InstanceType" in part),
        zones=frozenset(str(part["AvailabilityZoneId"]) for part in parts if "AvailabilityZoneId" in part),
        fee_usd=Decimal(fee) if fee and description.get("CurrencyCode") == "USD" else None,
    )
