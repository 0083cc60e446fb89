"""The parts of an endpoint in SageMaker and Application Auto Scaling."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from launcher.aws.session import Session, translate_errors


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelState:
    """A model: its image, the S3 folder from which it is loaded, and its container's environment."""

    name: str
    image: str
    uri: str | None
    environment: Mapping[str, str]
    isolated: bool
    network: tuple[frozenset[str], frozenset[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigState:
    """A configuration with one variant."""

    name: str
    network: tuple[frozenset[str], frozenset[str]]
    instance_type: str
    instances: int
    # None if components have their own models.
    model: str | None
    ami: str | None
    volume_gib: int | None
    kms_key_arn: str | None
    routing: str | None
    # The instance range that SageMaker itself maintains, None if it does not.
    least: int | None
    most: int | None
    # The queued requests that an instance processes concurrently, None without a queue.
    queue: int | None
    answers_uri: str | None
    # The folder to which requests are copied.
    captured_uri: str | None
    # The training plan in which alone its instances run.
    training_plan_arn: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentState:
    """An inference component; `reason` is empty if SageMaker gives none."""

    status: str
    reason: str
    model: str
    copies: int
    chips: int
    memory_mb: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingState:
    """The range of a scaled resource, the expressions of its schedule, and its policies: name, kind, target value."""

    least: int
    most: int
    schedule: tuple[tuple[str, int, int], ...]
    policies: tuple[tuple[str, str, float | None], ...]
    policy_arns: frozenset[str]


def model_state(session: Session, name: str) -> ModelState:
    """The state of a model."""
    with translate_errors(f"describe model {name}"):
        model = session.client("sagemaker").describe_model(ModelName=name)
    container = model["PrimaryContainer"]
    return ModelState(
        name=name,
        image=str(container.get("Image", "")),
        uri=container.get("ModelDataSource", {}).get("S3DataSource", {}).get("S3Uri"),
        environment=dict(container.get("Environment", {})),
        isolated=bool(model.get("EnableNetworkIsolation", False)),
        network=_network(model),
    )


def _network(described: Mapping[str, Any]) -> tuple[frozenset[str], frozenset[str]]:
    """The subnets and security groups of containers; both empty in SageMaker's own network."""
    given = described.get("VpcConfig") or {}
    return frozenset(given.get("Subnets", ())), frozenset(given.get("SecurityGroupIds", ()))


def config_state(session: Session, name: str) -> ConfigState:
    """The state of a configuration."""
    with translate_errors(f"describe endpoint configuration {name}"):
        config = session.client("sagemaker").describe_endpoint_config(EndpointConfigName=name)
    variant, queue = config["ProductionVariants"][0], config.get("AsyncInferenceConfig")
    managed: Mapping[str, Any] = variant.get("ManagedInstanceScaling") or {}
    return ConfigState(
        name=name,
        network=_network(config),
        instance_type=str(variant["InstanceType"]),
        instances=int(variant["InitialInstanceCount"]),
        model=variant.get("ModelName"),
        ami=variant.get("InferenceAmiVersion"),
        volume_gib=variant.get("VolumeSizeInGB"),
        kms_key_arn=config.get("KmsKeyId"),
        routing=(variant.get("RoutingConfig") or {}).get("RoutingStrategy"),
        least=managed.get("MinInstanceCount"),
        most=managed.get("MaxInstanceCount"),
        queue=queue["ClientConfig"]["MaxConcurrentInvocationsPerInstance"] if queue else None,
        answers_uri=queue["OutputConfig"]["S3OutputPath"] if queue else None,
        captured_uri=(config.get("DataCaptureConfig") or {}).get("DestinationS3Uri"),
        training_plan_arn=(variant.get("CapacityReservationConfig") or {}).get("MlReservationArn"),
    )


def component_state(session: Session, name: str) -> ComponentState:
    """The state of an inference component."""
    with translate_errors(f"describe inference component {name}"):
        component = session.client("sagemaker").describe_inference_component(InferenceComponentName=name)
    needed = component["Specification"].get("ComputeResourceRequirements", {})
    return ComponentState(
        status=str(component["InferenceComponentStatus"]),
        reason=str(component.get("FailureReason", "")),
        model=str(component["Specification"].get("ModelName", "")),
        copies=int(component.get("RuntimeConfig", {}).get("CurrentCopyCount", 0)),
        chips=int(needed.get("NumberOfAcceleratorDevicesRequired", 0)),
        memory_mb=int(needed.get("MinMemoryRequiredInMb", 0)),
    )


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


def scaling_state(session: Session, resource: str) -> ScalingState | None:
    """The scaling of a SageMaker resource; None if the resource is not scaled."""
    client = session.client("application-autoscaling")
    space = "sagemaker"
    with translate_errors(f"describe the scaling of {resource}"):
        targets = client.describe_scalable_targets(ServiceNamespace=space, ResourceIds=[resource])["ScalableTargets"]
        if not targets:
            return None
        policies = client.describe_scaling_policies(ServiceNamespace=space, ResourceId=resource)["ScalingPolicies"]
        actions = client.describe_scheduled_actions(ServiceNamespace=space, ResourceId=resource)["ScheduledActions"]
    key = "TargetTrackingScalingPolicyConfiguration"
    return ScalingState(
        least=int(targets[0]["MinCapacity"]),
        most=int(targets[0]["MaxCapacity"]),
        schedule=tuple((str(action["Schedule"]), *_range(action["ScalableTargetAction"])) for action in actions),
        policies=tuple(
            (str(policy["PolicyName"]), str(policy["PolicyType"]), policy.get(key, {}).get("TargetValue"))
            for policy in policies
        ),
        policy_arns=frozenset(str(policy["PolicyARN"]) for policy in policies),
    )


def _range(action: Mapping[str, Any]) -> tuple[int, int]:
    return int(action["MinCapacity"]), int(action["MaxCapacity"])
