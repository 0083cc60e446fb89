"""Facts about SageMaker training jobs: instances that SageMaker starts and ends with each job."""

from launcher.model.enums import EfaLayout, TargetKind
from launcher.model.target import (
    SAGEMAKER,
    SAGEMAKER_OPTIONS,
    SAGEMAKER_PLANS,
    TRAINING,
    TRAINING_JOBS,
    Guard,
    RoleUse,
    Runs,
    Target,
)
from launcher.model.training_job import JOBS_OUTPUT, LOG_GROUP

FACTS = Target(
    kind=TargetKind.SAGEMAKER_TRAINING,
    title="SageMaker training jobs",
    short="SMT",
    example="sagemaker/lora-g5.yaml",
    trains=SAGEMAKER_OPTIONS,
    deployed=(Runs.TRAINING,),
    savings_plans=SAGEMAKER_PLANS,
    sagemaker=TRAINING,
    guard=Guard(
        module="training_jobs",
        variable="TRAINING_JOBS",
        events=("SageMaker Training Job State Change",),
        stops="running jobs are stopped",
    ),
    joins_groups=True,
    # Which interfaces SageMaker gives its instances is not documented: the layout that takes more addresses is counted.
    efa_layout=EfaLayout.CLASSIC,
    managed_spot=True,
    per_job=True,
    shared_log=LOG_GROUP,
    planned_for="training-job",
    # Developer guide, training plans: of training jobs later than of HyperPod.
    plan_lost_minutes=30,
    own_outputs=(JOBS_OUTPUT,),
    software=("image/{image}",),
    person=("training-jobs",),
    policies=("network",),
    roles=(RoleUse(key="nodes", service=SAGEMAKER, needs=("jobs", "values", "machine-of-training-job", "images")),),
    scheduler=TRAINING_JOBS,
)
