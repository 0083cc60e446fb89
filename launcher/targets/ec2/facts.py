"""Facts about plain EC2 instances that start and end with one job."""

from launcher.model.ec2 import GROUP_OUTPUT
from launcher.model.enums import TargetKind
from launcher.model.monitoring import IDLE_METRICS
from launcher.model.tags import CLUSTER_TAG, PURPOSE_TAG
from launcher.model.target import (
    EC2,
    EC2_OPTIONS,
    EC2_PLANS,
    INSTANCES,
    Guard,
    InstanceTags,
    RoleUse,
    Runs,
    Target,
    VolumeKey,
)

FACTS = Target(
    kind=TargetKind.EC2,
    title="EC2 instances",
    short="EC2",
    example="ec2/lora-g6e.yaml",
    trains=EC2_OPTIONS,
    deployed=(Runs.TRAINING,),
    savings_plans=EC2_PLANS,
    guard=Guard(
        module="ec2",
        variable="EC2",
        events=(),
        spot_notices=True,
        stops="the instances end",
        idle="idle instances",
        metrics_a_node=IDLE_METRICS,
        alone=True,
    ),
    instance_tags=InstanceTags(cluster=CLUSTER_TAG, role=PURPOSE_TAG, node="node", prefix=""),
    logs_sessions=True,
    joins_groups=True,
    volume_key=VolumeKey.NAMED,
    starts_volumes="autoscaling.amazonaws.com/AWSServiceRoleForAutoScaling",
    per_job=True,
    public_nodes=True,
    efa_on_one_node=False,
    own_outputs=(GROUP_OUTPUT,),
    policies=("network", "ec2"),
    person=("ec2-jobs",),
    roles=(
        RoleUse(
            key="nodes", service=EC2, needs=("jobs", "values", "machine-of-ec2", "entered"), entered=True, pulls=True
        ),
    ),
    scheduler=INSTANCES,
)
