"""AWS::ApplicationAutoScaling: the range of what is scaled, its schedule, and the policies that follow the traffic.

Emulated: what a template says of them can be read back from Application Auto Scaling, and goes away with its stack.
moto's own check of a range is not used: it knows no inference components. Not emulated: that anything is scaled.
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

_SERVICE = "application-autoscaling"
_OWN_ROLE = "aws-service-role/sagemaker.application-autoscaling.amazonaws.com"
_BODIES = {
    "StepScaling": "StepScalingPolicyConfiguration",
    "TargetTrackingScaling": "TargetTrackingScalingPolicyConfiguration",
}
_ID_PARTS = 3
"""Of the id of a target, as CloudFormation makes it: what is scaled, the dimension, the service."""


def _scaling(wanted: Requested) -> ApplicationAutoscalingBackend:
    return applicationautoscaling_backends[wanted.account_id][wanted.region_name]


def _check(operation: str, request: Mapping[str, Any]) -> None:
    found = complaints(_SERVICE, (operation,), request)
    if found:
        raise ResourceRefusedError(f"Properties validation failed: {'; '.join(found)}")


def _target(wanted: Requested, before: Created | None = None) -> Created:
    request = {key: value for key, value in dict(wanted.properties).items() if key != "ScheduledActions"}
    _check("RegisterScalableTarget", request)
    id_, dimension, service = (wanted.need(key) for key in ("ResourceId", "ScalableDimension", "ServiceNamespace"))
    if wanted.need("MinCapacity") > wanted.need("MaxCapacity"):
        raise ResourceRefusedError("Maximum capacity cannot be less than minimum capacity")
    if before is not None:
        _drop_target(wanted, before)
    role = wanted.get("RoleARN") or f"arn:aws:iam::{wanted.account_id}:role/{_OWN_ROLE}"
    made = FakeScalableTarget(
        _scaling(wanted),
        service,
        id_,
        dimension,
        wanted.need("MinCapacity"),
        wanted.need("MaxCapacity"),
        role,
        wanted.get("SuspendedState"),
    )
    _scaling(wanted).targets.setdefault(dimension, {})[id_] = made
    for action in wanted.get("ScheduledActions", []):
        _scaling(wanted).put_scheduled_action(
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


def _drop_target(wanted: Requested, target: Created) -> None:
    id_, dimension, service = target.physical_resource_id.split("|")
    known = _scaling(wanted)
    known.targets.get(dimension, {}).pop(id_, None)
    known.scheduled_actions = [
        action for action in known.scheduled_actions if (action.resource_id, action.service_namespace) != (id_, service)
    ]


def _policy(wanted: Requested, before: Created | None = None) -> Created:
    kind, name = wanted.need("PolicyType"), wanted.need("PolicyName")
    named = str(wanted.need("ScalingTargetId")).split("|")
    if len(named) != _ID_PARTS or named[0] not in _scaling(wanted).targets.get(named[1], {}):
        raise ResourceRefusedError(f"No scalable target found for {wanted.need('ScalingTargetId')}")
    id_, dimension, service = named
    body = wanted.need(_BODIES[kind]) if kind in _BODIES else {}
    request = {key: value for key, value in dict(wanted.properties).items() if key != "ScalingTargetId"}
    _check("PutScalingPolicy", request)
    if before is not None:
        _drop_policy(wanted, before)
    made = _scaling(wanted).put_scaling_policy(name, service, id_, dimension, body, kind)
    if before is not None:
        made.policy_arn = before.physical_resource_id
    return Created(physical_resource_id=made.policy_arn, attributes={"Arn": made.policy_arn})


def _drop_policy(wanted: Requested, policy: Created) -> None:
    known = _scaling(wanted).policies
    for key in [key for key, each in known.items() if each.policy_arn == policy.physical_resource_id]:
        del known[key]


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
