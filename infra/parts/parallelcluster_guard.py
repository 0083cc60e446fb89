"""The ParallelCluster-specific part of the guardrails: stopping the fleet, its head node, its Capacity Block."""

from aws_cdk import Aws, Stack
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.parts.block_end import announce_block
from infra.parts.guard_function import Rights
from infra.parts.guardrails import Guardrails
from launcher.model.plan import Plan
from launcher.rendering.cluster import cluster_name


def rights(plan: Plan, scope: Construct) -> Rights:
    """The guard's permissions: describe nodes, update the DynamoDB row of the fleet's state, end remaining nodes."""
    table = f"table/parallelcluster-{cluster_name(plan)}"
    stop = iam.PolicyStatement(
        sid="StopFleet",
        actions=["dynamodb:GetItem", "dynamodb:UpdateItem"],
        resources=[f"arn:{Aws.PARTITION}:dynamodb:{Stack.of(scope).region}:{Aws.ACCOUNT_ID}:{table}"],
        conditions={"ForAllValues:StringEquals": {"dynamodb:LeadingKeys": ["COMPUTE_FLEET"]}},
    )
    instances = f"arn:{Aws.PARTITION}:ec2:{Stack.of(scope).region}:{Aws.ACCOUNT_ID}:instance/*"
    end = iam.PolicyStatement(
        sid="TerminateRetainedNodes",
        actions=["ec2:TerminateInstances"],
        resources=[instances],
        conditions={
            "StringEquals": {
                "aws:ResourceTag/parallelcluster:cluster-name": cluster_name(plan),
                "aws:ResourceTag/parallelcluster:node-type": "Compute",
            }
        },
    )
    return Rights(reads=("cloudwatch:GetMetricData", "ec2:DescribeInstances"), stop=(stop, end))


def announce(plan: Plan, guardrails: Guardrails) -> None:
    """Announce the events of ParallelCluster and EC2."""
    # ParallelCluster's alarm about its head node (health, CPU, memory, disk, its daemon), which notifies no one
    pattern = {
        "source": ["aws.cloudwatch"],
        "detail-type": ["CloudWatch Alarm State Change"],
        "detail": {"alarmName": [f"{cluster_name(plan)}-HeadNode"], "state": {"value": ["ALARM"]}},
    }
    guardrails.notify("HeadNode", "an alarm of the head node", pattern)
    announce_block(plan, guardrails)
