"""Facts about HyperPod clusters with EKS."""

from launcher.model.eks import VERSION
from launcher.model.enums import EfaLayout, TargetKind
from launcher.model.monitoring import CHART_MEMORY_MB
from launcher.model.target import (
    CLUSTER,
    KUBERNETES,
    SAGEMAKER,
    SAGEMAKER_OPTIONS,
    SAGEMAKER_PLANS,
    Guard,
    HeadNode,
    RoleUse,
    Runs,
    Target,
)
from launcher.targets.eks.facts import CONTROL_PLANE, PODS

FACTS = Target(
    kind=TargetKind.HYPERPOD_EKS,
    title="a HyperPod cluster with EKS",
    short="HPE",
    example="hyperpod-eks/p5en-spot.yaml",
    trains=SAGEMAKER_OPTIONS,
    deployed=(Runs.TRAINING,),
    savings_plans=SAGEMAKER_PLANS,
    sagemaker=CLUSTER,
    head=HeadNode(name="system node"),
    control_plane="eks.cluster",
    guard=Guard(
        module="hyperpod_eks",
        variable="HYPERPOD_EKS",
        events=("SageMaker HyperPod Cluster Node Health Event", "SageMaker HyperPod Cluster State Change"),
        # EC2 does not list its instances: a function in the cluster's network counts the pods' requests.
        idle="workers without a pod that asks for chips",
        alone=True,
        trial_hours=(1.0, 2.0),
        # It writes the count and reads it back.
        metrics_per_call=2,
        own_metrics=1,
        asks_mb=CHART_MEMORY_MB,
    ),
    spot_like_ec2=True,
    logs_sessions=True,
    joins_groups=True,
    efa_layout=EfaLayout.CLASSIC,
    resumes_jobs=True,
    own_outputs=("ClusterId", "AccessRoleArn"),
    policies=("network", "eks", "hyperpod"),
    registry_types=("AWS::SageMaker::Cluster",),
    software=(f"kubernetes/{VERSION}", "image/{image}"),
    roles=(
        RoleUse(
            key="nodes", service=SAGEMAKER, needs=("machine-of-hyperpod", "pods-of-hyperpod", "images"), entered=True
        ),
        CONTROL_PLANE,
        PODS,
    ),
    scheduler=KUBERNETES,
)
