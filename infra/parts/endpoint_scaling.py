"""The number of an endpoint's instances or copies: by requests in flight, by schedule, and down to zero."""

from aws_cdk import aws_applicationautoscaling as scaling
from constructs import Construct

from launcher.model.endpoint import FILLED, Endpoint, EndpointMode

OUT_S = 300
"""Cooldown between two scale-outs: a new instance needs longer to serve, and the metric does not show it earlier."""
IN_S = 900
"""Cooldown before a scale-in: an instance needs half an hour to return, so scaling in for a lull of a few minutes costs
more than a quarter of an hour of one instance."""
_PER_COPY = "SageMakerInferenceComponentConcurrentRequestsPerCopyHighResolution"
_PER_MODEL = "SageMakerVariantConcurrentRequestsPerModelHighResolution"


class EndpointScaling(Construct):
    """The range, the policy that follows the traffic, the schedule, and the policy that starts an endpoint at zero.

    Attributes:
        wake: the policy that an alarm starts; None if at least one instance always runs.
    """

    def __init__(self, scope: Construct, id_: str, *, endpoint: Endpoint, serves: Construct) -> None:
        """Create the scaling resources."""
        super().__init__(scope, id_)
        self._endpoint = endpoint
        components = endpoint.mode is EndpointMode.COMPONENTS
        self._target = scaling.CfnScalableTarget(
            self,
            "Range",
            service_namespace="sagemaker",
            resource_id=(
                f"inference-component/{endpoint.name}"
                if components
                else f"endpoint/{endpoint.name}/variant/{endpoint.variant}"
            ),
            scalable_dimension=(
                "sagemaker:inference-component:DesiredCopyCount"
                if components
                else "sagemaker:variant:DesiredInstanceCount"
            ),
            min_capacity=endpoint.least * endpoint.unit,
            max_capacity=endpoint.most * endpoint.unit,
            scheduled_actions=self._clock() or None,
        )
        self._target.node.add_dependency(serves)
        self._follow()
        self.wake = self._wake() if endpoint.scales_to_zero else None

    def _clock(self) -> list[scaling.CfnScalableTarget.ScheduledActionProperty]:
        kind = scaling.CfnScalableTarget
        return [
            kind.ScheduledActionProperty(
                scheduled_action_name=f"range-{index}",
                schedule=action.when,
                timezone=action.timezone,
                scalable_target_action=kind.ScalableTargetActionProperty(
                    min_capacity=action.least * self._endpoint.unit, max_capacity=action.most * self._endpoint.unit
                ),
            )
            for index, action in enumerate(self._endpoint.schedule)
        ]

    def _follow(self) -> None:
        """Target tracking of the requests in flight, or of the queue's length per instance."""
        kind = scaling.CfnScalingPolicy
        decided = self._endpoint
        in_flight = decided.concurrency * (1 if decided.mode is EndpointMode.COMPONENTS else decided.copies)
        queued = decided.mode is EndpointMode.ASYNCHRONOUS
        predefined = kind.PredefinedMetricSpecificationProperty(
            predefined_metric_type=_PER_COPY if decided.mode is EndpointMode.COMPONENTS else _PER_MODEL
        )
        backlog = kind.CustomizedMetricSpecificationProperty(
            namespace="AWS/SageMaker",
            metric_name="ApproximateBacklogSizePerInstance",
            dimensions=[kind.MetricDimensionProperty(name="EndpointName", value=decided.name)],
            statistic="Average",
        )
        self._policy(
            "Follow",
            "TargetTrackingScaling",
            target_tracking_scaling_policy_configuration=kind.TargetTrackingScalingPolicyConfigurationProperty(
                # What waits in a queue is not served yet: an instance may have as much before it as it takes at once.
                target_value=in_flight if queued else round(max(1.0, FILLED * in_flight), 1),
                predefined_metric_specification=None if queued else predefined,
                customized_metric_specification=backlog if queued else None,
                scale_in_cooldown=IN_S,
                scale_out_cooldown=OUT_S,
            ),
        )

    def _wake(self) -> scaling.CfnScalingPolicy:
        """Add one instance or copy if a request finds none (developer guide, scale to zero)."""
        kind = scaling.CfnScalingPolicy
        return self._policy(
            "FromZero",
            "StepScaling",
            step_scaling_policy_configuration=kind.StepScalingPolicyConfigurationProperty(
                adjustment_type="ChangeInCapacity",
                metric_aggregation_type="Maximum",
                cooldown=OUT_S,
                step_adjustments=[kind.StepAdjustmentProperty(metric_interval_lower_bound=0, scaling_adjustment=1)],
            ),
        )

    def _policy(self, id_: str, kind: str, **configuration: object) -> scaling.CfnScalingPolicy:
        return scaling.CfnScalingPolicy(
            self,
            id_,
            policy_name=f"{self._endpoint.name}-{id_.lower()}",
            policy_type=kind,
            scaling_target_id=self._target.ref,
            **configuration,  # type: ignore[arg-type]
        )
