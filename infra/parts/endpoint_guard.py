"""What the guardrails of an endpoint have of their own: deleting it, and what SageMaker says of it."""

from aws_cdk import Aws, Stack
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.parts.guard_function import Rights
from infra.parts.guardrails import Guardrails
from launcher.model.budget_stop import stops_at
from launcher.model.plan import Plan
from launcher.rendering.cluster import cluster_name

_STATE = "SageMaker Endpoint State Change"
_TROUBLE = (
    "FAILED",
    "Failed",
    "ROLLING_BACK",
    "RollingBack",
    "UPDATE_ROLLBACK_FAILED",
    "UpdateRollbackFailed",
)
"""AWS's example of the event has the words in capitals, its API as the second of each pair."""


def rights(plan: Plan, scope: Construct) -> Rights:
    """What the guard may do: delete the endpoint and the copies on it, or have it go to none where the plan says so."""
    name, place = cluster_name(plan), f"arn:{Aws.PARTITION}:sagemaker:{Stack.of(scope).region}:{Aws.ACCOUNT_ID}"
    endpoint = iam.PolicyStatement(
        sid="StopEndpoint",
        actions=["sagemaker:DeleteEndpoint", "sagemaker:DescribeEndpoint"],
        resources=[f"{place}:endpoint/{name}"],
    )
    copies = iam.PolicyStatement(
        sid="StopCopies",
        actions=["sagemaker:DeleteInferenceComponent"],
        resources=[f"{place}:inference-component/{name}"],
    )
    look, stop = ("sagemaker:ListInferenceComponents",), (endpoint, copies)
    serve = plan.request.workload.serve
    if stops_at(plan.request, plan.place.option) is None or serve is None or serve.min_instances:
        return Rights(look=look, stop=stop)
    region, account = Stack.of(scope).region, Aws.ACCOUNT_ID
    ranges = iam.PolicyStatement(
        sid="StopScaling",
        actions=["application-autoscaling:RegisterScalableTarget"],
        resources=[f"arn:{Aws.PARTITION}:application-autoscaling:{region}:{account}:scalable-target/*"],
        conditions={"StringEquals": {"application-autoscaling:service-namespace": "sagemaker"}},
    )
    # What registering a range asks of its caller in the service itself (user guide, permissions to SageMaker).
    scaled = iam.PolicyStatement(
        sid="StopInstances",
        actions=[
            "sagemaker:DescribeInferenceComponent",
            "sagemaker:UpdateEndpointWeightsAndCapacities",
            "sagemaker:UpdateInferenceComponentRuntimeConfig",
        ],
        resources=[f"{place}:endpoint/{name}", f"{place}:inference-component/{name}"],
    )
    return Rights(
        look=(*look, "application-autoscaling:DescribeScalableTargets"), stop=(endpoint, copies, ranges, scaled)
    )


def announce(plan: Plan, guardrails: Guardrails) -> None:
    """An endpoint that fails, or goes back to its old version: then it says InService again, and nothing else."""
    pattern = {
        "source": ["aws.sagemaker"],
        "detail-type": [_STATE],
        "detail": {"EndpointName": [cluster_name(plan)], "EndpointStatus": list(_TROUBLE)},
    }
    guardrails.tell("State", "an endpoint that fails or is rolled back", pattern)
