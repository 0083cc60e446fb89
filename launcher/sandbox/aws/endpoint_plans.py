"""Training plans of endpoints: what SageMaker refuses of a variant's CapacityReservationConfig.

Judged by: SageMaker developer guide, "Using training plans for SageMaker inference endpoints" and "Deploy an inference
endpoint using the API, AWS CLI" (2026-11): target `endpoint`, state Active, the plan's own instance type, one plan an
endpoint; API reference, ProductionVariantCapacityReservationConfig: "If no capacity is available, the instances fail to
launch". Not emulated: the end of the plan, from which on invocations fail with a capacity error.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from launcher.sandbox.aws.model import ResourceRefusedError
from launcher.sandbox.aws.training_plans import reservation
from launcher.sandbox.cluster.training_plan import TrainingPlan

TARGET, ACTIVE = "endpoint", "Active"


def refuse_other_plans(variants: Sequence[Mapping[str, Any]], plans: Mapping[str, TrainingPlan]) -> None:
    """Refuse a configuration whose training plan does not exist, or is for another resource or type.

    Raises:
        ResourceRefusedError: it is refused.
    """
    arns = {arn for variant in variants if (arn := reservation(variant)) is not None}
    if len(arns) > 1:
        raise ResourceRefusedError(f"One training plan per endpoint, got {', '.join(sorted(arns))}")
    for variant, arn in _reserved_variants(variants):
        bought = plans.get(arn)
        if bought is None:
            raise ResourceRefusedError(f"Could not find training plan {arn}")
        if bought.target != TARGET:
            raise ResourceRefusedError(f"Training plan {arn} is for {bought.target}, not for {TARGET}")
        if variant["InstanceType"] != bought.instance_type:
            got = f"the variant {variant['VariantName']} has {variant['InstanceType']}"
            raise ResourceRefusedError(f"Training plan {arn} has {bought.instance_type}, {got}")


def refuse_full_plans(
    variants: Sequence[Mapping[str, Any]],
    plans: Mapping[str, TrainingPlan],
    in_use: Callable[[str], int],
    *,
    running: Mapping[str, int],
    deployment: Mapping[str, Any],
) -> None:
    """Refuse a new endpoint, or a new version that runs beside the old one, if a training plan lacks the instances.

    Args:
        variants: those of the configuration.
        plans: the purchased plans, by ARN.
        in_use: the instances of a plan that run, those of the old version included.
        running: the instances of the old version that the new one keeps, by variant.
        deployment: the DeploymentConfig of an update.

    Raises:
        ResourceRefusedError: it is refused.
    """
    batch = deployment.get("RollingUpdatePolicy", {}).get("MaximumBatchSize")
    for variant, arn in _reserved_variants(variants):
        bought = plans[arn]
        status = bought.status(datetime.now(UTC))
        if status != ACTIVE:
            raise ResourceRefusedError(f"Training plan {arn} is {status}, and must be {ACTIVE}")
        wanted = running.get(variant["VariantName"], variant["InitialInstanceCount"])
        started = wanted if batch is None else math.ceil(wanted * batch["Value"] / 100)
        used = in_use(arn)
        if used + started > bought.count:
            message = f"InsufficientInstanceCapacity: training plan {arn} has {bought.count} instances, {used} in use"
            raise ResourceRefusedError(f"{message}, and {started} more are to start")


def _reserved_variants(variants: Iterable[Mapping[str, Any]]) -> Iterable[tuple[Mapping[str, Any], str]]:
    return ((variant, arn) for variant in variants if (arn := reservation(variant)) is not None)
