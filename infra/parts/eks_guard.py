"""The EKS-specific part of the guardrails: emptying the node group, and calling the function that counts pods."""

from aws_cdk import Aws, Stack
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.parts.guard_function import Rights
from launcher.model.eks import WORKERS
from launcher.model.plan import Plan
from launcher.rendering.cluster import cluster_name


def count_pods(counter_arn: str, plan: Plan) -> tuple[iam.PolicyStatement, dict[str, str]]:
    """The permission to call the pod-counting function, by its ARN, and the guard's variables that name it."""
    call = iam.PolicyStatement(sid="CountPods", actions=["lambda:InvokeFunction"], resources=[counter_arn])
    return call, {"PODS_FUNCTION": counter_arn, "WORKERS": str(plan.place.nodes)}


def rights(plan: Plan, scope: Construct, counter_arn: str) -> Rights:
    """The guard's permissions: describe instances, set the size of one node group, and call the function that counts.

    `counter_arn` is the ARN of that function, which is in the cluster's network.
    """
    group = f"nodegroup/{cluster_name(plan)}/{WORKERS}/*"
    stop = iam.PolicyStatement(
        sid="StopNodes",
        actions=["eks:DescribeNodegroup", "eks:UpdateNodegroupConfig"],
        resources=[f"arn:{Aws.PARTITION}:eks:{Stack.of(scope).region}:{Aws.ACCOUNT_ID}:{group}"],
    )
    call, variables = count_pods(counter_arn, plan)
    return Rights(reads=("cloudwatch:GetMetricData", "ec2:DescribeInstances"), stop=(stop, call), variables=variables)
