"""The parts of an endpoint as SageMaker and Application Auto Scaling describe them, in the words of their API."""

from collections.abc import Mapping
from typing import Any

from launcher.aws.session import Session, translate_errors

Description = Mapping[str, Any]


def describe_model(session: Session, name: str) -> Description:
    """The model."""
    with translate_errors(f"describe model {name}"):
        description: Description = session.client("sagemaker").describe_model(ModelName=name)
    return description


def containers_network(described: Description) -> tuple[frozenset[str], frozenset[str]]:
    """The subnets and security groups of containers; both empty in SageMaker's own network."""
    given = described.get("VpcConfig") or {}
    return frozenset(given.get("Subnets", ())), frozenset(given.get("SecurityGroupIds", ()))


def describe_config(session: Session, name: str) -> Description:
    """The configuration of an endpoint."""
    with translate_errors(f"describe endpoint configuration {name}"):
        description: Description = session.client("sagemaker").describe_endpoint_config(EndpointConfigName=name)
    return description


def describe_component(session: Session, name: str) -> Description:
    """An inference component."""
    with translate_errors(f"describe inference component {name}"):
        description: Description = session.client("sagemaker").describe_inference_component(InferenceComponentName=name)
    return description


def rollback_alarms(session: Session, endpoint: str, component: str | None) -> tuple[str, ...]:
    """The names of the alarms that roll back an update of an endpoint, or of its component."""
    client = session.client("sagemaker")
    with translate_errors(f"describe the deployment of {endpoint}"):
        if component is None:
            description = client.describe_endpoint(EndpointName=endpoint)
        else:
            description = client.describe_inference_component(InferenceComponentName=component)
    rollback = (description.get("LastDeploymentConfig") or {}).get("AutoRollbackConfiguration", {})
    return tuple(str(alarm["AlarmName"]) for alarm in rollback.get("Alarms", []))


def describe_scaling(session: Session, resource: str) -> Description:
    """The scaling of a SageMaker resource: ScalableTargets (empty: not scaled), ScalingPolicies, ScheduledActions."""
    client, space = session.client("application-autoscaling"), "sagemaker"
    with translate_errors(f"describe the scaling of {resource}"):
        return {
            **client.describe_scalable_targets(ServiceNamespace=space, ResourceIds=[resource]),
            **client.describe_scaling_policies(ServiceNamespace=space, ResourceId=resource),
            **client.describe_scheduled_actions(ServiceNamespace=space, ResourceId=resource),
        }
