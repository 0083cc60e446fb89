"""The metrics watched on an endpoint, and their alarms: notify, abort a deployment, or start an instance."""

import math
from typing import NamedTuple

from aws_cdk import Aws, Stack
from aws_cdk import aws_applicationautoscaling as scaling
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.parts.guard_function import Rights
from infra.parts.guardrails import Guardrails
from launcher.model.budget_stop import stops_at
from launcher.model.endpoint import Endpoint, EndpointAlarm, EndpointMode, endpoint_alarms
from launcher.model.plan import Plan
from launcher.rendering.cluster import cluster_name

_STATE = "SageMaker Endpoint State Change"
_PROBLEM_ALARMS = (
    "FAILED",
    "Failed",
    "ROLLING_BACK",
    "RollingBack",
    "UPDATE_ROLLBACK_FAILED",
    "UpdateRollbackFailed",
)
"""AWS's example event has the states in capitals; its API has the second spelling of each pair."""
NAMESPACE = "AWS/SageMaker"
_ROLLBACK = (EndpointAlarm.ERRORS, EndpointAlarm.LATENCY)
"""The alarms that abort a deployment: errors, and response times close to SageMaker's limit."""
_MINUTE, _FIVE = 60, 300
_MICROSECONDS = 1e6
WHOLE_S, STREAMED_S = 50, 420
"""Slightly below SageMaker's limits: 60 s, or 8 minutes for streamed responses (developer guide, hosting code)."""
OVERHEAD_S = 1
MAX_PERIODS = 288
"""An alarm evaluates at most one day: 288 periods of five minutes (CloudWatch, PutMetricAlarm)."""


def rights(plan: Plan, scope: Construct) -> Rights:
    """The guard's permissions: delete the endpoint and its copies, or scale it to zero if the plan allows zero.

    Also those to read why instances and copies do not start.
    """
    name, place = cluster_name(plan), f"arn:{Aws.PARTITION}:sagemaker:{Stack.of(scope).region}:{Aws.ACCOUNT_ID}"
    endpoint = iam.PolicyStatement(
        sid="DeleteEndpoint",
        actions=["sagemaker:DeleteEndpoint", "sagemaker:DescribeEndpoint"],
        resources=[f"{place}:endpoint/{name}"],
    )
    copies = iam.PolicyStatement(
        sid="DeleteInferenceComponents",
        actions=["sagemaker:DeleteInferenceComponent", "sagemaker:DescribeInferenceComponent"],
        resources=[f"{place}:inference-component/{name}"],
    )
    serve = plan.request.workload.serve
    to_zero = stops_at(plan.request, plan.place.option) is not None and serve is not None and not serve.min_instances
    region, account = Stack.of(scope).region, Aws.ACCOUNT_ID
    # SageMaker deletes a scaled endpoint only for callers that may deregister its range (developer guide, "Delete an
    # endpoint that has autoscaling"). An endpoint may get a range after its first deployment.
    ranges = iam.PolicyStatement(
        sid="DeregisterScaling",
        actions=[
            "application-autoscaling:DeregisterScalableTarget",
            *(["application-autoscaling:RegisterScalableTarget"] if to_zero else []),
        ],
        resources=[f"arn:{Aws.PARTITION}:application-autoscaling:{region}:{account}:scalable-target/*"],
        conditions={"StringEquals": {"application-autoscaling:service-namespace": "sagemaker"}},
    )
    logs = f"arn:{Aws.PARTITION}:logs:{region}:{account}:log-group:/aws/sagemaker"
    read = iam.PolicyStatement(
        sid="ReadStartLogs",
        actions=["logs:DescribeLogStreams", "logs:GetLogEvents"],
        resources=[f"{logs}/Endpoints/{name}:*", f"{logs}/InferenceComponents/{name}:*"],
    )
    actions, stop = ("sagemaker:ListInferenceComponents",), (endpoint, copies, ranges, read)
    if not to_zero:
        return Rights(reads=actions, stop=stop)
    # Permissions that the service requires of callers that register a range (user guide, permissions to SageMaker).
    scaled = iam.PolicyStatement(
        sid="StopInstances",
        actions=["sagemaker:UpdateEndpointWeightsAndCapacities", "sagemaker:UpdateInferenceComponentRuntimeConfig"],
        resources=[f"{place}:endpoint/{name}", f"{place}:inference-component/{name}"],
    )
    return Rights(reads=(*actions, "application-autoscaling:DescribeScalableTargets"), stop=(*stop, scaled))


def announce(plan: Plan, guardrails: Guardrails) -> None:
    """Announce a failed endpoint, or a rollback, after which the endpoint's status is only InService again."""
    pattern = {
        "source": ["aws.sagemaker"],
        "detail-type": [_STATE],
        "detail": {"EndpointName": [cluster_name(plan)], "EndpointStatus": list(_PROBLEM_ALARMS)},
    }
    guardrails.notify("State", "an endpoint that fails or is rolled back", pattern)


class _Watch(NamedTuple):
    """One metric and its threshold: some datapoints of the last periods beyond it raise the alarm."""

    text: str
    metric: str
    statistic: str
    threshold: float
    # Seconds.
    period: int
    # The number of last periods that count.
    periods: int = 1
    # The number of them that must be beyond the threshold.
    datapoints: int = 1
    comparison: str = "GreaterThanOrEqualToThreshold"
    missing: str = "notBreaching"


class EndpointAlarms(Construct):
    """The alarms of an endpoint; they know the endpoint by its name alone, so that it can refer to them.

    Attributes:
        rollback: the alarms that abort a deployment.
    """

    def __init__(
        self, scope: Construct, id_: str, *, endpoint: Endpoint, streaming: bool, idle_minutes: float | None
    ) -> None:
        """After `idle_minutes` without a request, an alarm sends a notification; None: no such alarm."""
        super().__init__(scope, id_)
        self._endpoint, self._streaming, self._idle_minutes = endpoint, streaming, idle_minutes
        watches = self._watches()
        kinds = endpoint_alarms(
            endpoint.mode, scales_to_zero=endpoint.scales_to_zero, has_idle_alarm=idle_minutes is not None
        )
        self._made = {alarm: self._alarm(alarm, watches[alarm]) for alarm in kinds}
        self.rollback = tuple(self._made[alarm] for alarm in _ROLLBACK if alarm in self._made)

    def notify(self, topics: tuple[str, ...]) -> None:
        """Set topics as the action of every alarm, except the alarm that starts an instance: it reports no problem."""
        for name, alarm in self._made.items():
            if name is not EndpointAlarm.WAKE:
                alarm.alarm_actions = list(topics)

    def wake(self, policy: scaling.CfnScalingPolicy) -> None:
        """Run a scaling policy if a request finds no instance."""
        self._made[EndpointAlarm.WAKE].alarm_actions = [policy.ref]

    def _watches(self) -> dict[EndpointAlarm, _Watch]:
        queued = self._endpoint.mode is EndpointMode.ASYNCHRONOUS
        limit = STREAMED_S if self._streaming else WHOLE_S
        failing = _Watch("requests of the queue fail", "InvocationFailures", "Sum", 1, _MINUTE)
        text = "10 % of the requests fail with an error of the endpoint (5xx)"
        errors = _Watch(text, "Invocation5XXErrors", "Average", 0.1, _MINUTE, periods=3, datapoints=2)
        text = "50 % of the requests are refused as invalid (4xx)"
        refused = _Watch(text, "Invocation4XXErrors", "Average", 0.5, _FIVE, periods=3, datapoints=3)
        text = f"10 % of the responses take {limit} s or longer, which is near SageMaker's limit"
        slow = _Watch(text, "ModelLatency", "p90", limit * _MICROSECONDS, _FIVE, periods=2, datapoints=2)
        text = f"SageMaker takes {OVERHEAD_S} s on average before a request reaches a container"
        before = _Watch(text, "OverheadLatency", "Average", OVERHEAD_S * _MICROSECONDS, _FIVE, periods=3, datapoints=3)
        nothing = "HasBacklogWithoutCapacity" if queued else "NoCapacityInvocationFailures"
        idle_metric = ("ApproximateBacklogSize", "Maximum") if queued else ("Invocations", "Sum")
        return {
            EndpointAlarm.ERRORS: failing if queued else errors,
            EndpointAlarm.REFUSED: refused,
            EndpointAlarm.LATENCY: slow,
            EndpointAlarm.OVERHEAD: before,
            EndpointAlarm.WAKE: _Watch("a request finds no instance", nothing, "Maximum", 1, _MINUTE),
            EndpointAlarm.IDLE: self._idle(*idle_metric),
        }

    def _idle(self, metric: str, statistic: str) -> _Watch:
        periods = min(MAX_PERIODS, max(1, math.ceil((self._idle_minutes or 0) * _MINUTE / _FIVE)))
        text = f"no request for {periods * _FIVE // _MINUTE} minutes, and the instances are still billed"
        return _Watch(
            text, metric, statistic, 1, _FIVE, periods, periods, comparison="LessThanThreshold", missing="breaching"
        )

    def _alarm(self, name: EndpointAlarm, watch: _Watch) -> cloudwatch.CfnAlarm:
        percentile = watch.statistic.startswith("p")
        return cloudwatch.CfnAlarm(
            self,
            name.value,
            alarm_description=f"Slipway {self._endpoint.name}: {watch.text}",
            namespace=NAMESPACE,
            metric_name=watch.metric,
            dimensions=self._dimensions(watch.metric),
            statistic=None if percentile else watch.statistic,
            extended_statistic=watch.statistic if percentile else None,
            period=watch.period,
            evaluation_periods=watch.periods,
            datapoints_to_alarm=watch.datapoints,
            comparison_operator=watch.comparison,
            threshold=watch.threshold,
            treat_missing_data=watch.missing,
        )

    def _dimensions(self, metric: str) -> list[cloudwatch.CfnAlarm.DimensionProperty]:
        """The dimensions of a metric: the component, the variant, or the endpoint for the length of a queue.

        Failures of a queue are metrics of the variant (developer guide, alarms and logs of asynchronous endpoints).
        """
        kind = cloudwatch.CfnAlarm.DimensionProperty
        if self._endpoint.mode is EndpointMode.COMPONENTS:
            return [kind(name="InferenceComponentName", value=self._endpoint.name)]
        dimensions = [kind(name="EndpointName", value=self._endpoint.name)]
        if not metric.startswith(("ApproximateBacklog", "HasBacklog")):
            dimensions.append(kind(name="VariantName", value=self._endpoint.variant))
        return dimensions
