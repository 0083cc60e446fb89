"""The permission to terminate what remains of a cluster's nodes, which their tags name."""

from aws_cdk import Aws
from aws_cdk import aws_iam as iam

from launcher.model.plan import Plan
from launcher.model.tags import CLUSTER_TAG, PURPOSE_TAG


def terminate_nodes(plan: Plan, sid: str) -> iam.PolicyStatement:
    """The statement for a guard: instances of the plan's cluster that are nodes, and no login node."""
    return iam.PolicyStatement(
        sid=sid,
        actions=["ec2:TerminateInstances"],
        resources=[f"arn:{Aws.PARTITION}:ec2:{plan.place.region}:{Aws.ACCOUNT_ID}:instance/*"],
        conditions={
            "StringEquals": {
                f"aws:ResourceTag/{CLUSTER_TAG}": plan.cluster_name,
                f"aws:ResourceTag/{PURPOSE_TAG}": "node",
            }
        },
    )
