"""Facts about HyperPod clusters with Slurm."""

from launcher.model.enums import EfaLayout, TargetKind
from launcher.model.monitoring import JOB_METRICS
from launcher.model.target import (
    CLUSTER,
    SAGEMAKER,
    SAGEMAKER_OPTIONS,
    SAGEMAKER_PLANS,
    Guard,
    HeadNode,
    RoleUse,
    Runs,
    Target,
)

FACTS = Target(
    kind=TargetKind.HYPERPOD_SLURM,
    title="a HyperPod cluster with Slurm",
    short="HPS",
    example="hyperpod/trn2-on-demand.yaml",
    trains=SAGEMAKER_OPTIONS,
    deployed=(Runs.TRAINING,),
    savings_plans=SAGEMAKER_PLANS,
    sagemaker=CLUSTER,
    head=HeadNode(name="controller", metrics=1),
    guard=Guard(
        module="hyperpod",
        variable="HYPERPOD",
        events=("SageMaker HyperPod Cluster Node Health Event", "SageMaker HyperPod Cluster State Change"),
        idle="workers without a queued job",
        alone=True,
        # Deep health checks.
        trial_hours=(1.0, 2.0),
        metrics_per_call=1,
        job_metrics=JOB_METRICS,
    ),
    # FSx for Lustre's smallest file system: its nodes have no other shared folder.
    min_shared_gib=1200,
    logs_sessions=True,
    joins_groups=True,
    # Which interfaces it gives its instances is not documented: the layout that takes more addresses is counted.
    efa_layout=EfaLayout.CLASSIC,
    resumes_jobs=True,
    own_outputs=("ClusterId",),
    policies=("network", "hyperpod"),
    registry_types=("AWS::SageMaker::Cluster",),
    roles=(
        RoleUse(
            key="nodes", service=SAGEMAKER, needs=("jobs", "values", "machine-of-hyperpod"), entered=True, pulls=True
        ),
    ),
)
