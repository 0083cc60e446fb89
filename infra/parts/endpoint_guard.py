"""What the guardrails of an endpoint have of their own: deleting it, and what SageMaker says of it."""

from aws_cdk import Aws, Stack
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.parts.guard_function import Rights
from infra.parts.guardrails import Guardrails
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
    """What the guard may do: delete the endpoint and the copies on it."""
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
    return Rights(look=("sagemaker:ListInferenceComponents",), stop=(endpoint, copies))


def announce(plan: Plan, guardrails: Guardrails) -> None:
    """An endpoint that fails, or goes back to its old version: then it says InService again, and nothing else."""
    pattern = {
        "source": ["aws.sagemaker"],
        "detail-type": [_STATE],
        "detail": {"EndpointName": [cluster_name(plan)], "EndpointStatus": list(_TROUBLE)},
    }
    guardrails.tell("State", "an endpoint that fails or is rolled back", pattern)
