"""Facts about pods on an EKS cluster."""

from launcher.model.eks import VERSION, WORKERS
from launcher.model.enums import PurchaseOption, TargetKind
from launcher.model.monitoring import COUNTER_MEMORY_MB, IDLE_METRICS
from launcher.model.target import (
    EC2,
    EC2_OPTIONS,
    EC2_PLANS,
    KUBERNETES,
    Guard,
    HeadNode,
    InstanceTags,
    RoleUse,
    Runs,
    Target,
    VolumeKey,
)

CONTROL_PLANE = RoleUse(key="control_plane", service="eks.amazonaws.com", needs=("control-plane",))
PODS = RoleUse(key="pods", service="pods.eks.amazonaws.com", needs=("pods", "values"))
"""Roles of every cluster with an EKS control plane."""

FACTS = Target(
    kind=TargetKind.EKS,
    title="pods on an EKS cluster",
    short="EKS",
    example="serve/pinned/llama31-8b-eks.yaml",
    trains=EC2_OPTIONS,
    deployed=(Runs.TRAINING,),
    head=HeadNode(name="system node"),
    control_plane="eks.cluster",
    guard=Guard(
        module="eks",
        variable="EKS",
        events=(),
        spot_notices=True,
        idle="idle nodes",
        metrics_a_node=IDLE_METRICS,
        asks_mb=COUNTER_MEMORY_MB,
        alone=True,
    ),
    instance_tags=InstanceTags(cluster="eks:cluster-name", role="eks:nodegroup-name", node=WORKERS),
    logs_sessions=True,
    joins_groups=True,
    volume_key=VolumeKey.NAMED,
    starts_volumes="autoscaling.amazonaws.com/AWSServiceRoleForAutoScaling",
    quotas=("eks/clusters",),
    roles=(
        RoleUse(key="nodes", service=EC2, needs=("node-of-eks", "images", "entered"), entered=True),
        CONTROL_PLANE,
        PODS,
    ),
    own_outputs=("AccessRoleArn",),
    policies=("network", "eks"),
    software=(f"kubernetes/{VERSION}", "image/{image}"),
    serves=(PurchaseOption.ON_DEMAND, PurchaseOption.SPOT, PurchaseOption.SAVINGS_PLAN, PurchaseOption.RESERVED),
    savings_plans=EC2_PLANS,
    scheduler=KUBERNETES,
)
