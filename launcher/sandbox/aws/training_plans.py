"""SageMaker's training plans, which moto lacks.

Judged by: botocore 1.44.5 (sagemaker/2017-07-24 service-2.json), which the client that parses the answers uses.

Emulated: purchased plans, created by `create_prerequisites`; DescribeTrainingPlan, with the instances that clusters and
endpoints use of each plan. Not emulated: offerings, the purchase, and instances that start and end with the plan.
"""

from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from moto.core.responses import ActionResult
from moto.sagemaker.exceptions import ResourceNotFound
from moto.sagemaker.models import SageMakerModelBackend
from moto.sagemaker.responses import SageMakerResponse

from launcher.sandbox.cluster.training_plan import TrainingPlan

_BOUGHT: defaultdict[tuple[str, str], dict[str, TrainingPlan]] = defaultdict(dict)
"""The purchased plans by account and region, then by name."""


def buy(account_id: str, bought: TrainingPlan) -> bool:
    """Add a training plan to an account; False if a plan with that name already exists."""
    plans = _BOUGHT[account_id, bought.region]
    return plans.setdefault(bought.name, bought) is bought


def bought_in(account_id: str, region: str) -> dict[str, TrainingPlan]:
    """The purchased training plans of an account in a region, by ARN."""
    return {plan.arn: plan for plan in _BOUGHT[account_id, region].values()}


def describe_training_plan(response: Any) -> ActionResult:
    """Return a purchased training plan."""
    backend: SageMakerModelBackend = response.sagemaker_backend
    name = response._get_param("TrainingPlanName")  # noqa: SLF001  the way moto's own responses read
    bought = _BOUGHT[backend.account_id, backend.region_name].get(name)
    if bought is None:
        raise ResourceNotFound(message=f"Could not find training plan '{name}'.")
    return ActionResult(_describe_plan(bought, in_use(backend, bought.arn), datetime.now(UTC)))


def in_use(backend: SageMakerModelBackend, arn: str) -> int:
    """The instances of a plan that clusters and endpoints run."""
    count = sum(_endpoint_instances(endpoint, arn) for endpoint in backend.endpoints.values())
    for cluster in backend.clusters.values():
        groups = {
            group["InstanceGroupName"]
            for group in cluster.describe()["InstanceGroups"]
            if group.get("TrainingPlanArn") == arn
        }
        count += sum(node.instance_group_name in groups for node in cluster.nodes.values())
    return count


def _endpoint_instances(endpoint: Any, arn: str) -> int:
    """The instances of an endpoint in a plan; moto's own endpoints have no plan."""
    counts = getattr(endpoint, "instance_counts", {})
    variants = endpoint.variants if counts else ()
    reserved = [variant for variant in variants if reservation(variant) == arn]
    return sum(int(counts[variant["VariantName"]]) for variant in reserved)


def reservation(variant: Mapping[str, Any]) -> str | None:
    """The training plan of an endpoint's variant; None if it has none."""
    arn = variant.get("CapacityReservationConfig", {}).get("MlReservationArn")
    return None if arn is None else str(arn)


def _describe_plan(bought: TrainingPlan, used: int, now: datetime) -> dict[str, Any]:
    status = bought.status(now)
    window: dict[str, Any] = {"StartTime": bought.starts_at, "EndTime": bought.ends_at}
    if bought.starts_at is not None and bought.ends_at is not None:
        window["DurationHours"] = (bought.ends_at - bought.starts_at) // timedelta(hours=1)
    capacity = {
        "ReservedCapacityArn": bought.arn.replace(":training-plan/", ":reserved-capacity/"),
        "ReservedCapacityType": "Instance",
        "InstanceType": bought.instance_type,
        "TotalInstanceCount": bought.count,
        "AvailabilityZoneId": bought.zone_id,
        "Status": status,
        **window,
    }
    described = {
        "TrainingPlanArn": bought.arn,
        "TrainingPlanName": bought.name,
        "Status": status,
        "UpfrontFee": bought.fee_usd,
        "CurrencyCode": None if bought.fee_usd is None else "USD",
        "TotalInstanceCount": bought.count,
        "AvailableInstanceCount": bought.count - used,
        "InUseInstanceCount": used,
        "TargetResources": [bought.target],
        **window,
    }
    plan, summary = ({key: value for key, value in row.items() if value is not None} for row in (described, capacity))
    return {**plan, "ReservedCapacitySummaries": [summary]}


def install() -> None:
    """Add the call to moto's SageMaker."""
    call = describe_training_plan
    setattr(SageMakerResponse, call.__name__, call)
