"""A ParallelCluster: its facts. It has no rules beyond those of all targets; it runs wherever EC2 has the type."""

from collections.abc import Iterator

from launcher.model.enums import TargetKind
from launcher.model.monitoring import DNS_ZONES, HEAD_NODE_ALARMS, HEAD_NODE_METRICS, IDLE_METRICS, JOB_METRICS
from launcher.model.target import EC2, Guard, HeadNode, InstanceTags, RoleUse, VolumeKey
from launcher.model.update import KeyChange, Properties
from launcher.targets.bases import Ec2Target

CLUSTER_TYPE = "Custom::PclusterCluster"


class ParallelCluster(Ec2Target):
    """A ParallelCluster: Slurm on a head node, with nodes that start with jobs."""

    kind = TargetKind.PARALLELCLUSTER
    title = "a ParallelCluster"
    short = "PC"
    example = "p5-spot.yaml"
    # ParallelCluster's own least is 0.6 GiB and 1 GiB for 25 nodes (aws-parallelcluster 3.16.1,
    # HeadNodeMemorySizeValidator); this has 8.
    smallest_head = "m6i.large"
    head = HeadNode(
        name="head node",
        alarms=len(HEAD_NODE_ALARMS),
        composite_alarms=1,
        metrics=HEAD_NODE_METRICS,
        dns_zones=DNS_ZONES,
        elastic_address=True,
    )
    guard = Guard(
        module="guard",
        variable="PARALLELCLUSTER",
        events=("CloudWatch Alarm State Change",),
        spot_notices=True,
        idle="idle nodes",
        metrics_a_node=IDLE_METRICS,
        job_metrics=JOB_METRICS,
    )
    instance_tags = InstanceTags(
        cluster="parallelcluster:cluster-name", role="parallelcluster:node-type", node="Compute"
    )
    login_balancer = True
    public_nodes = True
    # Route 53 has no interface endpoint (ParallelCluster guide, a single subnet with no internet access).
    needs_internet = "its nodes install packages at boot, and Route 53 registers their names"
    volume_key = VolumeKey.DEFAULT
    roles = (
        RoleUse(key="nodes", service=EC2, needs=("jobs", "values", "nodes-of-parallelcluster", "compute"), pulls=True),
        RoleUse(
            key="head_node",
            service=EC2,
            needs=("jobs", "values", "nodes-of-parallelcluster", "head", "session-manager"),
            entered=True,
        ),
        RoleUse(
            key="login_nodes", service=EC2, needs=("nodes-of-parallelcluster", "login", "session-manager"), entered=True
        ),
    )
    policies = ("network", "parallelcluster")
    # ParallelCluster 3.16.1 installs Slurm 25.11.8 (its release notes).
    software = ("parallelcluster/3.16", "slurm/25.11", "os/{os}")

    def key_changes(self, resource_type: str, old: Properties, new: Properties) -> Iterator[KeyChange]:
        """The changed keys of the cluster's configuration, by ParallelCluster's own update rules."""
        if resource_type == CLUSTER_TYPE:
            from launcher.targets.parallelcluster.updates import changes

            yield from changes(old, new)

    def head_type(self, resource_type: str, properties: Properties) -> str | None:
        """The head node's instance type."""
        if resource_type != CLUSTER_TYPE:
            return None
        return str(properties["ClusterConfiguration"]["HeadNode"]["InstanceType"])
