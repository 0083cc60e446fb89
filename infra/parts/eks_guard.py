"""The EKS-specific part of the guardrails: emptying the node group, and calling the function that counts pods."""

from dataclasses import dataclass

from aws_cdk import Aws, Stack
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.parts.block_end import announce_block
from infra.parts.guard_function import Rights
from infra.parts.guardrails import Guardrails
from launcher.model.eks import WORKERS
from launcher.model.plan import Plan
from launcher.rendering.cluster import cluster_name


def count_pods(asks: str, plan: Plan) -> tuple[iam.PolicyStatement, dict[str, str]]:
    """The permission to call the pod-counting function, by its ARN, and the guard's variables that name it."""
    call = iam.PolicyStatement(sid="CountPods", actions=["lambda:InvokeFunction"], resources=[asks])
    return call, {"PODS_FUNCTION": asks, "WORKERS": str(plan.place.nodes)}


@dataclass(frozen=True, slots=True)
class EksGuard:
    """The guard of EKS, with the ARN of a function in the cluster's network that counts pods."""

    asks: str

    def rights(self, plan: Plan, scope: Construct) -> Rights:
        """The guard's permissions: describe instances, set the size of one node group, and call that function."""
        group = f"nodegroup/{cluster_name(plan)}/{WORKERS}/*"
        stop = iam.PolicyStatement(
            sid="StopNodes",
            actions=["eks:DescribeNodegroup", "eks:UpdateNodegroupConfig"],
            resources=[f"arn:{Aws.PARTITION}:eks:{Stack.of(scope).region}:{Aws.ACCOUNT_ID}:{group}"],
        )
        call, variables = count_pods(self.asks, plan)
        return Rights(
            reads=("cloudwatch:GetMetricData", "ec2:DescribeInstances"), stop=(stop, call), variables=variables
        )

    def announce(self, plan: Plan, guardrails: Guardrails) -> None:
        """Announce the end of a Capacity Block."""
        announce_block(plan, guardrails)
