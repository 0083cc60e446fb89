"""Compares an endpoint with the plan: model, instances, count, scaling, alarms, and callers."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from launcher.aws import alarms, buckets, roles
from launcher.aws.endpoint_parts import component_state, config_state, model_state, rollback_alarms, scaling_state
from launcher.aws.endpoints import describe_endpoint
from launcher.model.endpoint import FILLED, RETENTION_DAYS, Endpoint, EndpointMode, endpoint_alarms
from launcher.model.idle import idle_minutes
from launcher.model.monitoring import FAILED_CALLS
from launcher.workflow.cluster.deployed import DeployedStacks
from launcher.workflow.cluster.readback import guards, training
from launcher.workflow.cluster.readback.reading import Instances, Reading

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
    state = model_state(reading.session, reading.main.outputs["ModelName"])
    uri = None if planned.model_uri is None else f"{planned.model_uri.rstrip('/')}/"
    checks.equal("image", planned.image, state.image)
    checks.equal("model is loaded from", uri, state.uri)
    checks.equal("container environment", dict(planned.environment), dict(state.environment))
    checks.equal("container is isolated from the network", planned.isolated, state.isolated)
    checks.equal("containers' subnets and security groups", planned.network, state.network)


def config(reading: Reading) -> None:
    """The instances: type, number, image and volume, and the distribution or queueing of requests."""
    checks, planned, plan = reading.checks, _endpoint(reading), reading.plan
    state = config_state(reading.session, reading.main.outputs["EndpointConfigName"])
    queued, shared = planned.mode is EndpointMode.ASYNCHRONOUS, planned.mode is EndpointMode.COMPONENTS
    checks.equal("instance type", planned.instance_type, state.instance_type)
    checks.equal("initial instances", max(1, planned.least), state.instances)
    checks.equal("instances' image", planned.ami, state.ami)
    checks.equal("volume, GiB", planned.volume_gib, state.volume_gib)
    checks.equal("instances' training plan", planned.training_plan_arn, state.training_plan_arn)
    key = plan.request.storage.kms_key_arn if planned.volume_gib is not None else None
    checks.equal("volumes' own key", key, state.kms_key_arn)
    if shared:
        checks.equal("containers' subnets and security groups", planned.network, state.network)
        checks.equal("instances are kept between", (planned.least, planned.most), (state.least, state.most))
    else:
        checks.equal("configuration's model", reading.main.outputs["ModelName"], state.model)
    if queued:
        checks.equal("concurrent requests from the queue", planned.concurrency * planned.copies, state.queue)
        checks.equal("answers are stored in", reading.main.outputs["AnswersUri"], state.answers_uri)
    else:
        checks.equal("requests are stored in", SPREAD, state.routing)
    captures = plan.request.workload.serve is not None and plan.request.workload.serve.data_capture
    checks.equal("requests are copied", captures, state.captured_uri is not None)


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
    state = component_state(reading.session, outputs["InferenceComponentName"])
    checks.equal("component", IN_SERVICE, state.status)
    checks.equal("component's model", outputs["ModelName"], state.model)
    checks.equal("chips of a copy", planned.chips, state.chips)
    checks.equal("memory of a copy, MiB", planned.memory_mb, state.memory_mb)
    # An endpoint that ran before has as many as its traffic wants.
    checks.holds("copies are within the range", state.copies <= planned.most * planned.unit)


def scaling(reading: Reading) -> None:
    """The scaling: its range, schedule and target; the wake-up policy if the number may be 0."""
    checks, planned = reading.checks, _endpoint(reading)
    resource = _scalable_resource(planned)
    state = scaling_state(reading.session, resource)
    if state is None:
        checks.holds(f"{resource} is scaled", fact=False)
        return
    unit = planned.unit
    clock = frozenset((range_.when, range_.least * unit, range_.most * unit) for range_ in planned.schedule)
    checks.equal("schedule", clock, frozenset(state.schedule))
    # The clock changes the range itself.
    ranges = {(planned.least * unit, planned.most * unit), *((least, most) for _, least, most in clock)}
    checks.holds(f"range is one of the plan's, {state.least} to {state.most}", (state.least, state.most) in ranges)
    capacity = planned.concurrency * (1 if planned.mode is EndpointMode.COMPONENTS else planned.copies)
    queued = planned.mode is EndpointMode.ASYNCHRONOUS
    target = float(capacity) if queued else round(max(1.0, FILLED * capacity), 1)
    policies = {("TargetTrackingScaling", target), *({("StepScaling", None)} if planned.scales_to_zero else set())}
    checks.equal("policies", policies, {(kind, value) for _, kind, value in state.policies})


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
        checks.equal("days that requests are kept", RETENTION_DAYS, days)


def metric_alarms(reading: Reading) -> None:
    """The endpoint's own alarms and those of every target, all for this endpoint; the wake-up alarm starts a policy."""
    checks, planned = reading.checks, _endpoint(reading)
    states = alarms.alarms(reading.session, reading.ids("AWS::CloudWatch::Alarm"))
    endpoint_states = [alarm for alarm in states if alarm.metric not in GUARD_METRICS]
    expected_alarms = endpoint_alarms(
        planned.mode, scales_to_zero=planned.scales_to_zero, tells_idle=idle_minutes(reading.plan.request) is not None
    )
    checks.equal("alarms of the endpoint", len(expected_alarms), len(endpoint_states))
    names = {
        alarm.dimensions.get("InferenceComponentName") or alarm.dimensions.get("EndpointName")
        for alarm in endpoint_states
    }
    checks.equal("endpoint's alarms watch", {planned.name}, names)
    policies = {
        alarm.actions for alarm in endpoint_states if any(":scalingPolicy:" in action for action in alarm.actions)
    }
    if planned.scales_to_zero:
        state = scaling_state(reading.session, _scalable_resource(planned))
        known = state.policy_arns if state is not None else frozenset()
        checks.holds("an alarm scales it up from zero", policies and all(policy <= known for policy in policies))
    notified = {alarm.actions for alarm in endpoint_states} - policies
    checks.equal("endpoint's alarms notify", {guards.notified_topics(reading)}, notified)
    limit = reading.limit_usd
    expected = {"RunningNodes", FAILED_CALLS} | (
        {"EstimatedSpend"} if limit is not None and reading.usd_per_hour else set()
    )
    checks.equal("alarms on", expected, {alarm.metric for alarm in states} & set(GUARD_METRICS))


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


def _variant_instances(properties: Mapping[str, Any], resources: Mapping[str, Any]) -> Iterator[Instances]:
    targets = [each["Properties"] for each in resources.values() if each["Type"] == f"{SCALING}::ScalableTarget"]
    for variant in properties["ProductionVariants"]:
        if "InstanceType" in variant:
            count = int(variant["InitialInstanceCount"])
            managed = variant.get("ManagedInstanceScaling")
            # Copies of a component scale by themselves, and SageMaker adapts the instances within the variant's limits.
            limits = [managed["MaxInstanceCount"]] if managed else [target["MaxCapacity"] for target in targets]
            yield Instances(type=variant["InstanceType"], count=count, nodes=True, most=max([count, *map(int, limits)]))


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
