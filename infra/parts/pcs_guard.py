"""What the guardrails of a PCS cluster have of their own: node groups set to zero, and machines that stay ended."""

from dataclasses import dataclass

from aws_cdk import Aws, Stack
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.parts.block_end import announce_block
from infra.parts.guard_function import Rights
from infra.parts.guardrails import Guardrails
from infra.parts.pcs_nodes import MACHINE_TAG
from launcher.model.plan import Plan


@dataclass(frozen=True, slots=True)
class PcsGuard:
    """PCS's, over the cluster's id and the role of its machines."""

    cluster_id: str
    role_arn: str

    def rights(self, plan: Plan, scope: Construct) -> Rights:
        """What the guard may do: look at instances, set node groups to zero, end nodes by their tags.

        An update of a group takes what its creation does (PCS user guide, minimum permissions): all of it through PCS.
        """
        region = Stack.of(scope).region
        cluster = f"arn:{Aws.PARTITION}:pcs:{region}:{Aws.ACCOUNT_ID}:cluster/{self.cluster_id}"
        through = {"ForAnyValue:StringEquals": {"aws:CalledVia": [f"pcs.{Aws.URL_SUFFIX}"]}}
        statements = (
            iam.PolicyStatement(
                sid="StopNodes",
                actions=["pcs:GetComputeNodeGroup", "pcs:ListComputeNodeGroups", "pcs:UpdateComputeNodeGroup"],
                resources=[cluster, f"{cluster}/computenodegroup/*"],
            ),
            iam.PolicyStatement(
                sid="StopsThroughPcs",
                actions=["ec2:CreateFleet", "ec2:CreateTags", "ec2:RunInstances", "iam:GetInstanceProfile"],
                resources=["*"],
                conditions=through,
            ),
            iam.PolicyStatement(
                sid="GiveRole",
                actions=["iam:PassRole"],
                resources=[self.role_arn],
                conditions={"StringEquals": {"iam:PassedToService": f"ec2.{Aws.URL_SUFFIX}"}},
            ),
            iam.PolicyStatement(
                sid="EndWhatStays",
                actions=["ec2:TerminateInstances"],
                resources=[f"arn:{Aws.PARTITION}:ec2:{region}:{Aws.ACCOUNT_ID}:instance/*"],
                conditions={
                    "StringEquals": {
                        "aws:ResourceTag/slipway:cluster": plan.cluster_name,
                        f"aws:ResourceTag/{MACHINE_TAG}": "node",
                    }
                },
            ),
        )
        look = (
            *("cloudwatch:GetMetricData", "ec2:DescribeInstanceTypeOfferings", "ec2:DescribeInstanceTypes"),
            *("ec2:DescribeInstances", "ec2:DescribeLaunchTemplateVersions", "ec2:DescribeLaunchTemplates"),
            *("ec2:DescribeSecurityGroups", "ec2:DescribeSubnets", "ec2:DescribeVpcs"),
        )
        return Rights(look=look, stop=statements)

    def announce(self, plan: Plan, guardrails: Guardrails) -> None:
        """The end of a Capacity Block."""
        announce_block(plan, guardrails)
