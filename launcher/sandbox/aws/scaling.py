"""AWS::ApplicationAutoScaling: scalable targets, scheduled actions, and scaling policies.

Judged by: botocore 1.44.5 (application-autoscaling) for each request.

Emulated: Application Auto Scaling returns the settings of the template, and deletes them with the stack. moto's own
check of a target is not used: it lacks inference components. Not emulated: the scaling itself.
"""

from collections.abc import Mapping
from typing import Any

from moto.applicationautoscaling.models import (
    ApplicationAutoscalingBackend,
    FakeScalableTarget,
    applicationautoscaling_backends,
)

from launcher.aws.api_shape import complaints
from launcher.sandbox.aws.model import Created, Model, Requested, ResourceRefusedError

_OWN_ROLE = "aws-service-role/sagemaker.application-autoscaling.amazonaws.com"
_BODIES = {
    "StepScaling": "StepScalingPolicyConfiguration",
    "TargetTrackingScaling": "TargetTrackingScalingPolicyConfiguration",
}
_ID_PARTS = 3
"""Parts of a target's id in CloudFormation: the scaled resource, the dimension, the service."""


def _scaling(requested: Requested) -> ApplicationAutoscalingBackend:
    return applicationautoscaling_backends[requested.account_id][requested.region_name]


def _check(operation: str, request: Mapping[str, Any]) -> None:
    problems = complaints("application-autoscaling", (operation,), request)
    if problems:
        raise ResourceRefusedError(f"Properties validation failed: {'; '.join(problems)}")


def _target(requested: Requested, before: Created | None = None) -> Created:
    request = {key: value for key, value in dict(requested.properties).items() if key != "ScheduledActions"}
    _check("RegisterScalableTarget", request)
    id_, dimension, service = (requested.need(key) for key in ("ResourceId", "ScalableDimension", "ServiceNamespace"))
    if requested.need("MinCapacity") > requested.need("MaxCapacity"):
        raise ResourceRefusedError("Maximum capacity cannot be less than minimum capacity")
    if before is not None:
        _drop_target(requested, before)
    role = requested.get("RoleARN") or f"arn:aws:iam::{requested.account_id}:role/{_OWN_ROLE}"
    created = FakeScalableTarget(
        _scaling(requested),
        service,
        id_,
        dimension,
        requested.need("MinCapacity"),
        requested.need("MaxCapacity"),
        role,
        requested.get("SuspendedState"),
    )
    _scaling(requested).targets.setdefault(dimension, {})[id_] = created
    for action in requested.get("ScheduledActions", []):
        _scaling(requested).put_scheduled_action(
            service,
            action["Schedule"],
            action.get("Timezone"),
            action["ScheduledActionName"],
            id_,
            dimension,
            action.get("StartTime"),
            action.get("EndTime"),
            action.get("ScalableTargetAction"),
        )
    return Created(
        physical_resource_id=f"{id_}|{dimension}|{service}", attributes={"Id": f"{id_}|{dimension}|{service}"}
    )


def _drop_target(requested: Requested, target: Created) -> None:
    id_, dimension, service = target.physical_resource_id.split("|")
    scaling = _scaling(requested)
    scaling.targets.get(dimension, {}).pop(id_, None)
    scaling.scheduled_actions = [
        row for row in scaling.scheduled_actions if (row.resource_id, row.service_namespace) != (id_, service)
    ]


def _policy(requested: Requested, before: Created | None = None) -> Created:
    kind, name = requested.need("PolicyType"), requested.need("PolicyName")
    named = str(requested.need("ScalingTargetId")).split("|")
    if len(named) != _ID_PARTS or named[0] not in _scaling(requested).targets.get(named[1], {}):
        raise ResourceRefusedError(f"No scalable target found for {requested.need('ScalingTargetId')}")
    id_, dimension, service = named
    body = requested.need(_BODIES[kind]) if kind in _BODIES else {}
    request = {key: value for key, value in dict(requested.properties).items() if key != "ScalingTargetId"}
    _check("PutScalingPolicy", request)
    if before is not None:
        _drop_policy(requested, before)
    policy = _scaling(requested).put_scaling_policy(name, service, id_, dimension, body, kind)
    if before is not None:
        policy.policy_arn = before.physical_resource_id
    return Created(physical_resource_id=policy.policy_arn, attributes={"Arn": policy.policy_arn})


def _drop_policy(requested: Requested, policy: Created) -> None:
    policies = _scaling(requested).policies
    for key in [key for key, known in policies.items() if known.policy_arn == policy.physical_resource_id]:
        del policies[key]


MODELS = (
    Model(
        type="AWS::ApplicationAutoScaling::ScalableTarget",
        make=_target,
        change=_target,
        remove=_drop_target,
    ),
    Model(
        type="AWS::ApplicationAutoScaling::ScalingPolicy",
        make=_policy,
        change=_policy,
        remove=_drop_policy,
    ),
)
