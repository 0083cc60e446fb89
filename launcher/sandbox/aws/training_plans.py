"""SageMaker's training plans, which moto lacks.

Emulated: plans that were bought, put here by `furnish`; DescribeTrainingPlan of them, with the instances that clusters
have of each. Not emulated: offerings, the purchase, and that instances come and go with the plan's window.
"""

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from typing import Any

from moto.core.responses import ActionResult
from moto.sagemaker.exceptions import ResourceNotFound
from moto.sagemaker.models import SageMakerModelBackend
from moto.sagemaker.responses import SageMakerResponse

from launcher.sandbox.cluster.training_plan import TARGET, TrainingPlan

_BOUGHT: defaultdict[tuple[str, str], dict[str, TrainingPlan]] = defaultdict(dict)
"""By account and region, and there by name."""
_HOUR = timedelta(hours=1)


def buy(account_id: str, plan: TrainingPlan) -> bool:
    """Put a plan into an account; False where one of that name is there already."""
    held = _BOUGHT[account_id, plan.region]
    return held.setdefault(plan.name, plan) is plan


def bought(account_id: str, region: str) -> dict[str, TrainingPlan]:
    """The plans of an account in a region, by ARN."""
    return {each.arn: each for each in _BOUGHT[account_id, region].values()}


def describe_training_plan(response: Any) -> ActionResult:
    """A plan that was bought.

    Raises:
        ResourceNotFound: there is none of that name.
    """
    backend: SageMakerModelBackend = response.sagemaker_backend
    name = response._get_param("TrainingPlanName")  # noqa: SLF001  the way moto's own responses read
    plan = _BOUGHT[backend.account_id, backend.region_name].get(name)
    if plan is None:
        raise ResourceNotFound(message=f"Could not find training plan '{name}'.")
    return ActionResult(_described(plan, _in_use(backend, plan.arn), datetime.now(UTC)))


def _in_use(backend: SageMakerModelBackend, arn: str) -> int:
    """How many instances of a plan the clusters of an account have."""
    found = 0
    for cluster in backend.clusters.values():
        groups = {
            each["InstanceGroupName"]
            for each in cluster.describe()["InstanceGroups"]
            if each.get("TrainingPlanArn") == arn
        }
        found += sum(node.instance_group_name in groups for node in cluster.nodes.values())
    return found


def _described(plan: TrainingPlan, used: int, now: datetime) -> dict[str, Any]:
    status = plan.status(now)
    window: dict[str, Any] = {"StartTime": plan.starts_at, "EndTime": plan.ends_at}
    if plan.starts_at is not None and plan.ends_at is not None:
        window["DurationHours"] = (plan.ends_at - plan.starts_at) // _HOUR
    capacity = {
        "ReservedCapacityArn": plan.arn.replace(":training-plan/", ":reserved-capacity/"),
        "ReservedCapacityType": "Instance",
        "InstanceType": plan.instance_type,
        "TotalInstanceCount": plan.count,
        "AvailabilityZoneId": plan.zone_id,
        "Status": status,
        **window,
    }
    whole = {
        "TrainingPlanArn": plan.arn,
        "TrainingPlanName": plan.name,
        "Status": status,
        "UpfrontFee": plan.fee_usd,
        "CurrencyCode": None if plan.fee_usd is None else "USD",
        "TotalInstanceCount": plan.count,
        "AvailableInstanceCount": plan.count - used,
        "InUseInstanceCount": used,
        "TargetResources": [TARGET],
        **window,
    }
    known = {key: value for key, value in capacity.items() if value is not None}
    return {**{key: value for key, value in whole.items() if value is not None}, "ReservedCapacitySummaries": [known]}


def install() -> None:
    """Give the call to moto's SageMaker."""
    call = describe_training_plan
    setattr(SageMakerResponse, call.__name__, call)
