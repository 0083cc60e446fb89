"""Facts about clusters of AWS Parallel Computing Service."""

from launcher.model.enums import EfaLayout, TargetKind
from launcher.model.instance_type import InstanceType
from launcher.model.monitoring import IDLE_METRICS, JOB_METRICS
from launcher.model.pcs import SIZES, SLURM_VERSION, is_advanced, size_of
from launcher.model.request import PlanRequest
from launcher.model.tags import CLUSTER_TAG, PURPOSE_TAG
from launcher.model.target import (
    EC2,
    EC2_OPTIONS,
    EC2_PLANS,
    Fee,
    Guard,
    HeadNode,
    InstanceTags,
    RoleUse,
    Runs,
    Target,
    VolumeKey,
)
from launcher.model.units import HOURS_PER_MONTH

CONTROLLER, NODE, ACCOUNTING, STORAGE = "pcs/controller", "pcs/node", "pcs/accounting", "pcs/accounting-storage"
STORED_GB = 1
"""Assumed size of the accounting records: AWS publishes no size, and a record of a job is a few kilobytes."""


def _fees(request: PlanRequest, nodes: int, facts: InstanceType) -> tuple[Fee, ...]:
    """Fees for controller and accounting by size while the cluster is up, and for each instance while it runs."""
    size = (size_of(request, nodes) or SIZES[-1]).name.lower()
    tier = "advanced" if is_advanced(facts.family) else "standard"
    return (
        Fee(name=f"PCS controller, {size}", key=CONTROLLER, item=f"pcs.controller-{size}", unit="hour", an_hour_up=1),
        Fee(
            name=f"PCS node management, {tier}",
            key=NODE,
            item=f"pcs.node-{tier}",
            unit="instance-hour",
            a_node_hour=nodes,
        ),
        Fee(
            name="PCS node management, login node",
            key=NODE,
            item="pcs.node-standard",
            unit="instance-hour",
            an_hour_up=1,
        ),
        Fee(name=f"PCS accounting, {size}", key=ACCOUNTING, item=f"pcs.accounting-{size}", unit="hour", an_hour_up=1),
        *_storage(request),
    )


def _storage(request: PlanRequest) -> tuple[Fee, ...]:
    """The fee for accounting storage; none if the plan sets only a price of accounting, which then includes storage."""
    given = {"/".join(key.split("/")[:2]) for key in request.purchase.price_overrides}
    if ACCOUNTING in given and STORAGE not in given:
        return ()
    key = STORAGE if STORAGE in given else ACCOUNTING
    an_hour = STORED_GB / HOURS_PER_MONTH
    name, item = f"PCS accounting storage, {STORED_GB} GB", "pcs.accounting-storage"
    return (Fee(name=name, key=key, item=item, unit="GB-month", an_hour_up=an_hour),)


FACTS = Target(
    kind=TargetKind.PCS,
    title="a PCS cluster",
    short="PCS",
    example="pcs/p5-spot.yaml",
    trains=EC2_OPTIONS,
    deployed=(Runs.TRAINING,),
    savings_plans=EC2_PLANS,
    head=HeadNode(name="login node"),
    guard=Guard(
        module="pcs",
        variable="PCS",
        events=(),
        spot_notices=True,
        idle="idle nodes",
        metrics_a_node=IDLE_METRICS,
        job_metrics=JOB_METRICS,
    ),
    instance_tags=InstanceTags(cluster=CLUSTER_TAG, role=PURPOSE_TAG, node="node", prefix=""),
    # The home folder of its nodes: they have no other shared folder.
    min_shared_gib=1200,
    # AWS's templates attach an interface with an address to every card.
    efa_layout=EfaLayout.CLASSIC,
    logs_sessions=True,
    joins_groups=True,
    public_nodes=True,
    volume_key=VolumeKey.NAMED,
    starts_volumes="pcs.amazonaws.com/AWSServiceRoleForPCS",
    own_outputs=("PcsClusterId",),
    fees=_fees,
    fee_keys=(CONTROLLER, NODE, ACCOUNTING, STORAGE),
    fee_service=r"(aws|amazon)?(pcs|parallelcomputing(service)?)",
    software=(f"slurm/{SLURM_VERSION}",),
    policies=("network", "pcs"),
    person=("pcs-jobs",),
    quotas=("pcs/clusters",),
    registry_types=("AWS::PCS::Cluster", "AWS::PCS::ComputeNodeGroup", "AWS::PCS::Queue"),
    roles=(
        RoleUse(
            key="nodes", service=EC2, needs=("jobs", "values", "machine-of-pcs", "entered"), entered=True, pulls=True
        ),
    ),
)
