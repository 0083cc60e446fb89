"""SageMaker training plan offerings, as the rate of an instance-hour."""

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

from launcher.aws.calls import RefusedPriceError, dollars, failed_with, items
from launcher.aws.session import Session
from launcher.catalog.fetched_prices import FetchedPrice, FetchedPrices, Refusal, answer
from launcher.catalog.selector import Key
from launcher.model.errors import AwsError

DURATION_H = 24
TARGET = "hyperpod-cluster"
"""The target of the plans: a plan serves one kind of resource, and Slipway's clusters are HyperPod clusters."""
PLACES = Decimal("0.000001")


def training_plans(session: Session, instance_type: str, count: int, now: datetime) -> FetchedPrices:
    """The highest rate of training plans of an EC2 type in the session's region.

    Rate = fee / (hours x instances). SageMaker refuses a type that has no plans in a region: the result is then empty.
    """
    region = session.region
    try:
        offerings = items(
            session.client("sagemaker").search_training_plan_offerings,
            f"training plans of {instance_type} in {region}",
            "TrainingPlanOfferings",
            InstanceType=f"ml.{instance_type}",
            InstanceCount=count,
            StartTimeAfter=now,
            DurationHours=DURATION_H,
            TargetResources=[TARGET],
        )
    except AwsError as problem:
        if failed_with(problem, code="ValidationException", phrase="instance type"):
            return FetchedPrices(rates=())
        raise
    rates, refusals = [], []
    key = Key("training-plan", instance_type, region)
    for offering in offerings:
        try:
            fee = dollars(offering.get("UpfrontFee"), offering.get("CurrencyCode"))
            rates.append(FetchedPrice(key=key, usd=(fee / _instance_hours(offering)).quantize(PLACES)))
        except RefusedPriceError as problem:
            refusals.append(Refusal(key=key, reason=str(problem)))
    return answer(rates, refusals)


def _instance_hours(offering: Mapping[str, Any]) -> Decimal:
    """The instance-hours that a fee pays for: each part's own length if it states one, else the plan's length."""
    total = Decimal(0)
    for part in offering.get("ReservedCapacityOfferings", ()):
        stated = part if "DurationHours" in part else offering
        minutes = stated.get("DurationHours", 0) * 60 + stated.get("DurationMinutes", 0)
        total += Decimal(minutes) / 60 * part.get("InstanceCount", 0)
    if total <= 0:
        raise RefusedPriceError("the offering states no length or no size")
    return total
