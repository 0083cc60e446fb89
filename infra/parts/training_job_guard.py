"""What the guardrails of training jobs have of their own: stopping a job, and what SageMaker says of one that fails."""

from aws_cdk import Aws, Stack
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.parts.guard_function import Rights
from infra.parts.guardrails import Guardrails
from launcher.model.plan import Plan
from launcher.model.training_job import CLUSTER_TAG


def rights(plan: Plan, scope: Construct) -> Rights:
    """What the guard may do: stop training jobs that carry the plan's tag. Listing knows no resource."""
    jobs = f"arn:{Aws.PARTITION}:sagemaker:{Stack.of(scope).region}:{Aws.ACCOUNT_ID}:training-job/*"
    stop = iam.PolicyStatement(
        sid="StopJobs",
        actions=["sagemaker:StopTrainingJob"],
        resources=[jobs],
        conditions={"StringEquals": {f"aws:ResourceTag/{CLUSTER_TAG}": plan.cluster_name}},
    )
    look = iam.PolicyStatement(
        sid="LookAtJobs", actions=["sagemaker:DescribeTrainingJob", "sagemaker:ListTags"], resources=[jobs]
    )
    return Rights(look=("sagemaker:ListTrainingJobs",), stop=(stop, look))


def announce(plan: Plan, guardrails: Guardrails) -> None:
    """A training job that fails (developer guide, events of SageMaker AI: the detail has the job's tags)."""
    detail = {"TrainingJobStatus": ["Failed"], "Tags": {CLUSTER_TAG: [plan.cluster_name]}}
    pattern = {"source": ["aws.sagemaker"], "detail-type": ["SageMaker Training Job State Change"], "detail": detail}
    guardrails.tell("State", "a training job that fails", pattern)
