"""Facts about ParallelCluster."""

from launcher.model.enums import TargetKind
from launcher.model.monitoring import DNS_ZONES, HEAD_NODE_ALARMS, HEAD_NODE_METRICS, IDLE_METRICS, JOB_METRICS
from launcher.model.target import (
    EC2,
    EC2_OPTIONS,
    EC2_PLANS,
    Guard,
    HeadNode,
    InstanceTags,
    RoleUse,
    Runs,
    Target,
    VolumeKey,
)

FACTS = Target(
    kind=TargetKind.PARALLELCLUSTER,
    title="a ParallelCluster",
    short="PC",
    example="p5-spot.yaml",
    trains=EC2_OPTIONS,
    deployed=(Runs.TRAINING,),
    savings_plans=EC2_PLANS,
    head=HeadNode(
        name="head node",
        alarms=len(HEAD_NODE_ALARMS),
        composite_alarms=1,
        metrics=HEAD_NODE_METRICS,
        dns_zones=DNS_ZONES,
        elastic_address=True,
    ),
    guard=Guard(
        module="guard",
        variable="PARALLELCLUSTER",
        events=("CloudWatch Alarm State Change",),
        spot_notices=True,
        idle="idle nodes",
        metrics_a_node=IDLE_METRICS,
        job_metrics=JOB_METRICS,
    ),
    instance_tags=InstanceTags(
        cluster="parallelcluster:cluster-name", role="parallelcluster:node-type", node="Compute"
    ),
    login_balancer=True,
    public_nodes=True,
    logs_sessions=True,
    joins_groups=True,
    volume_key=VolumeKey.DEFAULT,
    roles=(
        RoleUse(
            key="nodes", service=EC2, needs=("jobs", "values", "machine-of-parallelcluster", "compute"), pulls=True
        ),
        RoleUse(
            key="head_node",
            service=EC2,
            needs=("jobs", "values", "machine-of-parallelcluster", "head", "entered"),
            entered=True,
        ),
        RoleUse(key="login_nodes", service=EC2, needs=("machine-of-parallelcluster", "login", "entered"), entered=True),
    ),
    policies=("network", "parallelcluster"),
    # ParallelCluster 3.16.1 installs Slurm 25.11.8 (its release notes).
    software=("parallelcluster/3.16", "slurm/25.11", "os/{os}"),
)
