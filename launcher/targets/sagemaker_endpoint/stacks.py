"""Compares an endpoint with the plan: model, instances, count, scaling, alarms, and callers."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from launcher.aws import alarms, buckets, roles
from launcher.aws.endpoint_parts import (
    containers_network,
    describe_component,
    describe_config,
    describe_model,
    describe_scaling,
    rollback_alarms,
)
from launcher.aws.endpoints import describe_endpoint
from launcher.model.endpoint import FILLED, RETENTION_DAYS, Endpoint, EndpointMode, endpoint_alarms
from launcher.model.idle import idle_minutes
from launcher.model.monitoring import FAILED_CALLS
from launcher.workflow.cluster.deployed import DeployedStacks
from launcher.workflow.cluster.readback import guards, training
from launcher.workflow.cluster.readback.reading import BilledInstances, Reading

IN_SERVICE = "InService"
SPREAD = "LEAST_OUTSTANDING_REQUESTS"
GUARD_METRICS = ("RunningNodes", FAILED_CALLS, "EstimatedSpend")
"""Alarms of every target; see guards.metric_alarms."""
SAGEMAKER, SCALING = "AWS::SageMaker", "AWS::ApplicationAutoScaling"


def _endpoint(reading: Reading) -> Endpoint:
    assert reading.endpoint is not None  # noqa: S101 - these readers read endpoints alone
    return reading.endpoint


def model(reading: Reading) -> None:
    """The model: its image, its source, the container's environment, and its network isolation."""
    checks, planned = reading.checks, _endpoint(reading)
    described = describe_model(reading.session, reading.main.outputs["ModelName"])
    container = described["PrimaryContainer"]
    source = container.get("ModelDataSource", {}).get("S3DataSource", {}).get("S3Uri")
    uri = None if planned.model_uri is None else f"{planned.model_uri.rstrip('/')}/"
    checks.equal("image", planned.image, container.get("Image", ""))
    checks.equal("model is loaded from", uri, source)
    checks.equal("container environment", dict(planned.environment), dict(container.get("Environment", {})))
    isolated = bool(described.get("EnableNetworkIsolation", False))
    checks.equal("container is isolated from the network", planned.isolated, isolated)
    checks.equal("containers' subnets and security groups", planned.network, containers_network(described))


def config(reading: Reading) -> None:
    """The instances: type, number, image and volume, and the distribution or queueing of requests."""
    checks, planned, plan = reading.checks, _endpoint(reading), reading.plan
    described = describe_config(reading.session, reading.main.outputs["EndpointConfigName"])
    variant = described["ProductionVariants"][0]
    queued, shared = planned.mode is EndpointMode.ASYNCHRONOUS, planned.mode is EndpointMode.COMPONENTS
    checks.equal("instance type", planned.instance_type, variant["InstanceType"])
    checks.equal("initial instances", max(1, planned.least), int(variant["InitialInstanceCount"]))
    checks.equal("instances' image", planned.ami, variant.get("InferenceAmiVersion"))
    checks.equal("volume, GiB", planned.volume_gib, variant.get("VolumeSizeInGB"))
    reserved = variant.get("CapacityReservationConfig") or {}
    checks.equal("instances' training plan", planned.training_plan_arn, reserved.get("MlReservationArn"))
    key = plan.request.storage.kms_key_arn if planned.volume_gib is not None else None
    checks.equal("volumes' own key", key, described.get("KmsKeyId"))
    if shared:
        scaled = variant.get("ManagedInstanceScaling") or {}
        kept = (scaled.get("MinInstanceCount"), scaled.get("MaxInstanceCount"))
        checks.equal("containers' subnets and security groups", planned.network, containers_network(described))
        checks.equal("instances are kept between", (planned.least, planned.most), kept)
    else:
        checks.equal("configuration's model", reading.main.outputs["ModelName"], variant.get("ModelName"))
    if queued:
        queue = described.get("AsyncInferenceConfig") or {"ClientConfig": {}, "OutputConfig": {}}
        concurrent = queue["ClientConfig"].get("MaxConcurrentInvocationsPerInstance")
        checks.equal("concurrent requests from the queue", planned.concurrency * planned.copies, concurrent)
        stored = queue["OutputConfig"].get("S3OutputPath")
        checks.equal("responses are stored in", reading.main.outputs["AnswersUri"], stored)
    else:
        routing = variant.get("RoutingConfig") or {}
        checks.equal("requests are routed by", SPREAD, routing.get("RoutingStrategy"))
    captures = plan.request.workload.serve is not None and plan.request.workload.serve.data_capture
    checks.equal("requests are copied", captures, bool(described.get("DataCaptureConfig")))


def endpoint(reading: Reading) -> None:
    """The endpoint: in service, with the requested configuration, and with its own alarms that roll back an update."""
    checks, outputs, planned = reading.checks, reading.main.outputs, _endpoint(reading)
    state = describe_endpoint(reading.session, outputs["EndpointName"])
    checks.equal("endpoint", IN_SERVICE, state.status)
    checks.equal("endpoint's configuration", outputs["EndpointConfigName"], state.config)
    if not planned.scales and planned.mode is not EndpointMode.COMPONENTS:
        checks.equal("instances", planned.least, state.instances)
    component = outputs.get("InferenceComponentName")
    named = rollback_alarms(reading.session, outputs["EndpointName"], component)
    alarm_names = set(reading.ids("AWS::CloudWatch::Alarm"))
    checks.holds(f"an update of {planned.name} is rolled back by its alarms", named and set(named) <= alarm_names)


def component(reading: Reading) -> None:
    """The copies of the requested model: their number, chips per copy, memory per copy."""
    checks, outputs, planned = reading.checks, reading.main.outputs, _endpoint(reading)
    described = describe_component(reading.session, outputs["InferenceComponentName"])
    needs = described["Specification"].get("ComputeResourceRequirements", {})
    checks.equal("component", IN_SERVICE, described["InferenceComponentStatus"])
    checks.equal("component's model", outputs["ModelName"], described["Specification"].get("ModelName"))
    checks.equal("chips of a copy", planned.chips, int(needs.get("NumberOfAcceleratorDevicesRequired", 0)))
    checks.equal("memory of a copy, MiB", planned.memory_mb, int(needs.get("MinMemoryRequiredInMb", 0)))
    # An endpoint that ran before has as many as its traffic wants.
    copies = int(described.get("RuntimeConfig", {}).get("CurrentCopyCount", 0))
    checks.holds("copies are within the range", copies <= planned.most * planned.unit)


def scaling(reading: Reading) -> None:
    """The scaling: its range, schedule and target; the wake-up policy if the number may be 0."""
    checks, planned = reading.checks, _endpoint(reading)
    resource = _scalable_resource(planned)
    described = describe_scaling(reading.session, resource)
    if not described["ScalableTargets"]:
        checks.holds(f"{resource} is scaled", fact=False)
        return
    unit = planned.unit
    clock = frozenset((range_.when, range_.least * unit, range_.most * unit) for range_ in planned.schedule)
    actions = described["ScheduledActions"]
    scheduled = frozenset((action["Schedule"], *_range(action["ScalableTargetAction"])) for action in actions)
    checks.equal("schedule", clock, scheduled)
    # The clock changes the range itself.
    ranges = {(planned.least * unit, planned.most * unit), *((least, most) for _, least, most in clock)}
    least, most = _range(described["ScalableTargets"][0])
    checks.holds(f"range is one of the plan's, {least} to {most}", (least, most) in ranges)
    capacity = planned.concurrency * (1 if planned.mode is EndpointMode.COMPONENTS else planned.copies)
    queued = planned.mode is EndpointMode.ASYNCHRONOUS
    target = float(capacity) if queued else round(max(1.0, FILLED * capacity), 1)
    policies = {("TargetTrackingScaling", target), *({("StepScaling", None)} if planned.scales_to_zero else set())}
    key = "TargetTrackingScalingPolicyConfiguration"
    found = {(policy["PolicyType"], policy.get(key, {}).get("TargetValue")) for policy in described["ScalingPolicies"]}
    checks.equal("policies", policies, found)


def _range(limits: Mapping[str, Any]) -> tuple[int, int]:
    return int(limits["MinCapacity"]), int(limits["MaxCapacity"])


def _scalable_resource(planned: Endpoint) -> str:
    shared = planned.mode is EndpointMode.COMPONENTS
    return f"inference-component/{planned.name}" if shared else f"endpoint/{planned.name}/variant/{planned.variant}"


def request_bucket(reading: Reading) -> None:
    """The bucket of requests and responses: private, and its objects expire."""
    checks = reading.checks
    for bucket_id in reading.ids("AWS::S3::Bucket"):
        state = buckets.describe(reading.session, bucket_id)
        checks.holds("bucket of requests blocks public access", state.public_access_blocked)
        checks.holds("bucket of requests is encrypted", state.encryption is not None)
        checks.holds("bucket of requests accepts TLS only", state.tls_only)
        checks.equal("bucket's own key", reading.plan.request.storage.kms_key_arn, state.kms_key)
        days = {rule["ID"]: rule.get("Expiration", {}).get("Days") for rule in state.lifecycle}.get("expire")
        checks.equal("retention in days of requests", RETENTION_DAYS, days)


def metric_alarms(reading: Reading) -> None:
    """The endpoint's own alarms and those of every target, all for this endpoint; the wake-up alarm starts a policy."""
    checks, planned = reading.checks, _endpoint(reading)
    described = alarms.metric_alarms(reading.session, reading.ids("AWS::CloudWatch::Alarm"))
    endpoint_states = [alarm for alarm in described if alarm["MetricName"] not in GUARD_METRICS]
    expected_alarms = endpoint_alarms(
        planned.mode,
        scales_to_zero=planned.scales_to_zero,
        has_idle_alarm=idle_minutes(reading.plan.request) is not None,
    )
    checks.equal("alarms of the endpoint", len(expected_alarms), len(endpoint_states))
    names = {
        alarms.dimension(alarm, "InferenceComponentName") or alarms.dimension(alarm, "EndpointName")
        for alarm in endpoint_states
    }
    checks.equal("endpoint's alarms watch", {planned.name}, names)
    actions = {frozenset(alarm.get("AlarmActions", ())) for alarm in endpoint_states}
    policies = {called for called in actions if any(":scalingPolicy:" in action for action in called)}
    if planned.scales_to_zero:
        scaled = describe_scaling(reading.session, _scalable_resource(planned))
        known = {policy["PolicyARN"] for policy in scaled["ScalingPolicies"]}
        checks.holds("an alarm scales it up from zero", policies and all(policy <= known for policy in policies))
    checks.equal("endpoint's alarms notify", {guards.notified_topics(reading)}, actions - policies)
    limit = reading.limit_usd
    expected = {"RunningNodes", FAILED_CALLS} | (
        {"EstimatedSpend"} if limit is not None and reading.usd_per_hour else set()
    )
    checks.equal("alarms on", expected, {alarm["MetricName"] for alarm in described} & set(GUARD_METRICS))


def overview(reading: Reading) -> None:
    """The dashboard: it shows this endpoint."""
    (name,) = reading.ids("AWS::CloudWatch::Dashboard")
    body = alarms.dashboard(reading.session, name)
    texts = [str(widget["properties"]) for widget in body.get("widgets", [])]
    reading.checks.holds("dashboard shows the endpoint", any(_endpoint(reading).name in text for text in texts))


def callers(reading: Reading) -> None:
    """The callers' policy: it allows this endpoint, and a token, which no policy can restrict to one endpoint."""
    checks, planned = reading.checks, _endpoint(reading)
    statements = roles.policy_statements(reading.session, reading.main.outputs["InvokePolicyArn"])
    action = "InvokeEndpointAsync" if planned.mode is EndpointMode.ASYNCHRONOUS else "InvokeEndpoint"
    invoked = [statement for statement in statements if f"sagemaker:{action}" in _as_list(statement["Action"])]
    targets = {resource.rpartition("/")[2] for statement in invoked for resource in _as_list(statement["Resource"])}
    checks.equal("callers may invoke", {planned.name}, targets)


def _as_list(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else list(value)


def _variant_instances(properties: Mapping[str, Any], resources: Mapping[str, Any]) -> Iterator[BilledInstances]:
    targets = [each["Properties"] for each in resources.values() if each["Type"] == f"{SCALING}::ScalableTarget"]
    for variant in properties["ProductionVariants"]:
        if "InstanceType" in variant:
            count = int(variant["InitialInstanceCount"])
            managed = variant.get("ManagedInstanceScaling")
            # Copies of a component scale by themselves, and SageMaker adapts the instances within the variant's limits.
            limits = [managed["MaxInstanceCount"]] if managed else [target["MaxCapacity"] for target in targets]
            yield BilledInstances(
                type=variant["InstanceType"], count=count, nodes=True, most=max([count, *map(int, limits)])
            )


class EndpointStacks(DeployedStacks):
    """The stacks of an endpoint."""

    readers = (
        (model, (f"{SAGEMAKER}::Model",)),
        (config, (f"{SAGEMAKER}::EndpointConfig",)),
        (endpoint, (f"{SAGEMAKER}::Endpoint",)),
        (component, (f"{SAGEMAKER}::InferenceComponent",)),
        (scaling, (f"{SCALING}::ScalableTarget", f"{SCALING}::ScalingPolicy")),
        (request_bucket, ("AWS::S3::Bucket", "AWS::S3::BucketPolicy")),
        (metric_alarms, ("AWS::CloudWatch::Alarm",)),
        (overview, ("AWS::CloudWatch::Dashboard",)),
        (callers, ("AWS::IAM::ManagedPolicy",)),
        (training.log_retention, ("AWS::Logs::LogGroup",)),
        (training.role_boundaries, ("AWS::IAM::Role",)),
        (guards.topic, ("AWS::SNS::Topic", "AWS::SNS::TopicPolicy", "AWS::SNS::Subscription")),
        (guards.guard, guards.FUNCTION_TYPES),
        (guards.event_rules, ("AWS::Events::Rule",)),
        (guards.budget, ("AWS::Budgets::Budget",)),
    )
    instances = MappingProxyType({"AWS::SageMaker::EndpointConfig": _variant_instances})
