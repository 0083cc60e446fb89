"""The part of the guardrails for training jobs: stopping a job, its log group, and SageMaker's event of a failure."""

from aws_cdk import Aws, Stack
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.parts.guard_function import Rights
from infra.parts.guardrails import Guardrails
from launcher.model.plan import Plan
from launcher.model.sizing import LOG_RETENTION_DAYS
from launcher.model.tags import CLUSTER_TAG
from launcher.model.training_job import LOG_GROUP


def rights(plan: Plan, scope: Construct) -> Rights:
    """The guard's permissions: stop training jobs that have the plan's tag, and set the retention of their log group.

    IAM cannot limit listing to a resource. No stack owns the log group: SageMaker creates it for all training jobs of
    the account.
    """
    region = Stack.of(scope).region
    jobs = f"arn:{Aws.PARTITION}:sagemaker:{region}:{Aws.ACCOUNT_ID}:training-job/*"
    stop = iam.PolicyStatement(
        sid="StopJobs",
        actions=["sagemaker:StopTrainingJob"],
        resources=[jobs],
        conditions={"StringEquals": {f"aws:ResourceTag/{CLUSTER_TAG}": plan.cluster_name}},
    )
    describe = iam.PolicyStatement(
        sid="DescribeTrainingJobs", actions=["sagemaker:DescribeTrainingJob", "sagemaker:ListTags"], resources=[jobs]
    )
    group = f"arn:{Aws.PARTITION}:logs:{region}:{Aws.ACCOUNT_ID}:log-group:{LOG_GROUP}"
    keep = iam.PolicyStatement(
        sid="PutLogRetention", actions=["logs:PutRetentionPolicy"], resources=[group, f"{group}:*"]
    )
    return Rights(
        reads=("cloudwatch:GetMetricData", "logs:DescribeLogGroups", "sagemaker:ListTrainingJobs"),
        stop=(stop, describe, keep),
        variables={"LOG_GROUP": LOG_GROUP, "LOG_RETENTION_DAYS": str(LOG_RETENTION_DAYS)},
    )


def announce(plan: Plan, guardrails: Guardrails) -> None:
    """Announce a failed training job (developer guide, events of SageMaker AI: the detail has the job's tags)."""
    detail = {"TrainingJobStatus": ["Failed"], "Tags": {CLUSTER_TAG: [plan.cluster_name]}}
    pattern = {"source": ["aws.sagemaker"], "detail-type": ["SageMaker Training Job State Change"], "detail": detail}
    guardrails.notify("State", "a training job that fails", pattern)
