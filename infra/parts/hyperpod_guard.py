"""The HyperPod-specific part of the guardrails: deleting workers, and SageMaker's events about the cluster."""

from aws_cdk import Aws, Stack
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.parts.guard_function import Rights
from infra.parts.guardrails import Guardrails
from launcher.model.hyperpod import replaces_failed_starts
from launcher.model.plan import Plan
from launcher.rendering.cluster import cluster_name
from launcher.targets.registry import target_of


def rights(plan: Plan, scope: Construct) -> Rights:
    """The guard's permissions: delete the nodes of a cluster that has the plan's tag, and read why some do not start.

    SageMaker generates the id in a cluster's ARN, so the stack's tags identify the cluster.
    """
    region, name = Stack.of(scope).region, cluster_name(plan)
    pods, keyed = target_of(plan.place.target).pods, plan.request.storage.kms_key_arn is not None
    continuous = replaces_failed_starts(plan.place.option, pods=pods, keyed=keyed)
    reasons = ["sagemaker:DescribeClusterEvent", "sagemaker:ListClusterEvents"] if continuous else []
    stop = iam.PolicyStatement(
        sid="StopWorkers",
        actions=[
            *("sagemaker:BatchDeleteClusterNodes", "sagemaker:DescribeCluster", "sagemaker:ListClusterNodes"),
            *reasons,
        ],
        resources=[f"arn:{Aws.PARTITION}:sagemaker:{region}:{Aws.ACCOUNT_ID}:cluster/*"],
        conditions={"StringEquals": {"aws:ResourceTag/slipway:cluster": plan.cluster_name}},
    )
    logs = f"arn:{Aws.PARTITION}:logs:{region}:{Aws.ACCOUNT_ID}:log-group:/aws/sagemaker/Clusters/{name}/*"
    read = iam.PolicyStatement(sid="ReadStartLogs", actions=["logs:GetLogEvents"], resources=[logs])
    return Rights(reads=(), stop=(stop, read), variables={"CONTINUOUS": "true"} if continuous else {})


def announce(plan: Plan, guardrails: Guardrails) -> None:
    """Announce faulty instances and a failed cluster (developer guide, events of SageMaker AI)."""
    detail = {"ClusterName": [cluster_name(plan)]}
    pattern = {
        "source": ["aws.sagemaker"],
        "detail-type": ["SageMaker HyperPod Cluster Node Health Event"],
        "detail": detail,
    }
    guardrails.notify("NodeHealth", "instances that fail HyperPod's health checks", pattern)
    pattern = {
        "source": ["aws.sagemaker"],
        "detail-type": ["SageMaker HyperPod Cluster State Change"],
        "detail": {**detail, "ClusterStatus": ["Failed", "RollingBack"]},
    }
    guardrails.notify("State", "a HyperPod cluster that fails", pattern)
