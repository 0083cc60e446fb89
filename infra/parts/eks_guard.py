"""What the guardrails of an EKS cluster have of their own: emptying its node group, and what EC2 says of its nodes."""

from aws_cdk import Aws, Stack
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.parts.block_end import announce_block
from infra.parts.guard_function import Rights
from infra.parts.guardrails import Guardrails
from launcher.model.eks import WORKERS
from launcher.model.plan import Plan
from launcher.rendering.cluster import cluster_name


def rights(plan: Plan, scope: Construct) -> Rights:
    """What the guard may do: look at instances, and set the size of one node group."""
    group = f"nodegroup/{cluster_name(plan)}/{WORKERS}/*"
    stop = iam.PolicyStatement(
        sid="StopNodes",
        actions=["eks:DescribeNodegroup", "eks:UpdateNodegroupConfig"],
        resources=[f"arn:{Aws.PARTITION}:eks:{Stack.of(scope).region}:{Aws.ACCOUNT_ID}:{group}"],
    )
    return Rights(look=("cloudwatch:GetMetricData", "ec2:DescribeInstances"), stop=(stop,))


def announce(plan: Plan, guardrails: Guardrails) -> None:
    """The end of a Capacity Block."""
    announce_block(plan, guardrails)
