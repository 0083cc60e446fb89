"""Pods on an EKS cluster with node groups: its facts, and its rules for one place."""

from collections.abc import Iterator, Mapping

from launcher.model.eks import CAPACITY_TYPES, WORKERS
from launcher.model.enums import Operator, PurchaseOption, TargetKind
from launcher.model.finding import Finding, error
from launcher.model.instance_type import InstanceType
from launcher.model.monitoring import COUNTER_MEMORY_MB, IDLE_METRICS
from launcher.model.plan import Place
from launcher.model.request import PlanRequest
from launcher.model.target import EC2, Guard, InstanceTags, RoleUse, VolumeKey
from launcher.targets.bases import CONTROL_PLANE, PODS, Ec2Target, PodTarget

_TO_PARALLELCLUSTER = f"or set target.kind to {TargetKind.PARALLELCLUSTER}"
MAX_NODES = 450
"""Limit of one managed node group, before a quota is raised (EKS service quotas)."""


class Eks(PodTarget, Ec2Target):
    """Pods on an EKS cluster with node groups."""

    kind = TargetKind.EKS
    title = "pods on an EKS cluster"
    short = "EKS"
    example = "serve/pinned/llama31-8b-eks.yaml"
    serves = (PurchaseOption.ON_DEMAND, PurchaseOption.SPOT, PurchaseOption.SAVINGS_PLAN, PurchaseOption.RESERVED)
    guard = Guard(
        module="eks",
        variable="EKS",
        events=(),
        spot_notices=True,
        idle="idle nodes",
        metrics_a_node=IDLE_METRICS,
        counter_mb=COUNTER_MEMORY_MB,
        alone=True,
    )
    instance_tags = InstanceTags(cluster="eks:cluster-name", role="eks:nodegroup-name", node=WORKERS)
    volume_key = VolumeKey.NAMED
    starts_volumes = "autoscaling.amazonaws.com/AWSServiceRoleForAutoScaling"
    quotas = ("eks/clusters",)
    node_quotas = ("eks/group-nodes",)
    roles = (
        RoleUse(key="nodes", service=EC2, needs=("nodes-of-eks", "images", "session-manager"), entered=True),
        CONTROL_PLANE,
        PODS,
    )
    own_outputs = ("AccessRoleArn",)
    policies = ("network", "eks")

    def refusals(
        self, request: PlanRequest, place: Place, instances: Mapping[str, InstanceType]
    ) -> tuple[Finding, ...]:
        """Every reason why a place cannot be a node group; empty if it can."""
        rules = (_capacity(request, place), _unused_keys(request), self._new_cluster(request, place))
        return tuple(finding for rule in rules for finding in rule)

    def _new_cluster(self, request: PlanRequest, place: Place) -> Iterator[Finding]:
        """Keys that a new cluster does not support, and missing settings of its network."""
        if request.target.cluster is not None:
            return
        if request.target.queue is not None:
            message = f"a cluster that Slipway creates for the job has no Kueue, got {request.target.queue}"
            yield error(
                "queue-without-cluster", "target.queue", message, "set target.cluster to a cluster that has Kueue"
            )
        if request.run.operator not in (None, Operator.JOB):
            message = f"a cluster that Slipway creates for the job has no training operator, got {request.run.operator}"
            yield error(
                "operator-without-cluster",
                "run.operator",
                message,
                "set run.operator to auto, or set target.cluster to a cluster that has the operator",
            )
        yield from self.zone_refusals(request, place)


def _capacity(request: PlanRequest, place: Place) -> Iterator[Finding]:
    purchase = request.purchase
    if place.option not in CAPACITY_TYPES:
        message = f"{place.option} does not buy EKS nodes, allowed: {', '.join(CAPACITY_TYPES)}"
        yield error("option-without-nodes", "purchase.option", message)
    if place.option is PurchaseOption.SPOT and purchase.reservation is not None:
        message = "spot instances cannot use a reservation"
        yield error("spot-with-reservation", "purchase.reservation", message, "remove one of the two")
    if place.nodes > MAX_NODES:
        message = f"a node group has at most {MAX_NODES} nodes, got {place.nodes}"
        yield error("too-many-nodes", "target.nodes", message, "use fewer and larger instances")


def _unused_keys(request: PlanRequest) -> Iterator[Finding]:
    target, storage = request.target, request.storage
    given = (
        ("target.fallback_types", target.fallback_types, "list the types in target.instance_type: each is a candidate"),
        ("target.ami", target.ami, "its nodes run the EKS AMI for their accelerator"),
        ("target.ssh_host", target.ssh_host, "set target.cluster to use an existing Kubernetes cluster"),
        ("storage.lustre_gib", storage.lustre_gib, f"keep data in S3, {_TO_PARALLELCLUSTER}"),
        ("storage.login_nodes", storage.login_nodes, "Slipway reaches its API from this computer"),
        ("storage.login_pool", storage.login_pool, "Slipway reaches its API from this computer"),
    )
    for path, value, hint in given:
        if value:
            yield error("eks-unused", path, f"pods on EKS do not use this key, got {value}", hint)
