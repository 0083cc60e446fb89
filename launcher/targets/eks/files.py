"""Renders an EKS cluster of node groups: every decision, for the preview and for the deployment."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from launcher.model import eks, sizing
from launcher.model.bundle import RenderedFile
from launcher.model.eks import Interface
from launcher.model.enums import PREPAID, TargetKind
from launcher.model.errors import ImpossibleError
from launcher.model.finding import Finding, error
from launcher.model.instance_type import InstanceType
from launcher.model.plan import Plan
from launcher.model.tags import Tag
from launcher.planning.targets import unnamed_capacity
from launcher.rendering import kubernetes_job
from launcher.rendering.cluster import CLUSTER_FILE, cluster_name, notify_findings, unknown_types
from launcher.rendering.device_plugins import plugin_files
from launcher.rendering.engine import render_template
from launcher.rendering.kubernetes_pod import resource_name
from launcher.rendering.names import ClusterNames
from launcher.rendering.node import reporting
from launcher.rendering.target_files import PodFiles
from launcher.targets.eks.target import Eks

JOINED = "templates/eks/joined.sh"
"""The script that reports whether a node has joined its cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroupContext:
    """A managed node group."""

    name: str
    instance_type: str
    ami_type: str
    # EKS's term: ON_DEMAND, SPOT, CAPACITY_BLOCK.
    capacity_type: str
    # The minimum and maximum number of nodes, and the initial one: 0 for a Capacity Block, since a group fails
    # before its block begins.
    minimum: int
    count: int
    desired: int
    volume_gib: int
    # Encrypts its root volumes; None: EBS's default key.
    volume_key_arn: str | None
    # Existing security groups in addition to the cluster's own.
    group_ids: tuple[str, ...]
    interfaces: tuple[Interface, ...]
    placement_group: bool
    # A capacity reservation or None.
    reservation_id: str | None
    # NVMe disks form one volume for pods' folders.
    local_storage: bool
    # EKS replaces faulty nodes.
    repair: bool
    # The key of a taint that makes other pods prefer other nodes; one that forbids other pods would also block
    # EKS's DCGM.
    taint: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EksContext:
    """An EKS cluster (templates/eks/cluster.yaml.j2)."""

    name: str
    version: str
    # The addresses that may reach its API; empty: the API is private.
    public_cidrs: tuple[str, ...]
    log_types: tuple[str, ...]
    # Versions by name.
    addons: tuple[Tag, ...]
    groups: tuple[NodeGroupContext, ...]
    # The JSON settings of some add-ons.
    settings: Mapping[str, str] = field(default_factory=dict)


def eks_context(plan: Plan, instances: Mapping[str, InstanceType]) -> EksContext:
    """Every decision about a plan's cluster.

    Raises:
        ImpossibleError: no cluster can be created, with all reasons.
    """
    problems = EksFiles().findings(plan, instances)
    if problems:
        raise ImpossibleError(f"{plan.name} does not create an EKS cluster", findings=problems)
    workers = _workers(plan, instances[plan.place.instance_type])
    return cluster_context(plan, groups=(system_group(plan), workers))


def cluster_context(plan: Plan, *, groups: tuple[NodeGroupContext, ...]) -> EksContext:
    """A plan's EKS cluster with the given node groups."""
    return EksContext(
        name=cluster_name(plan),
        version=eks.VERSION,
        public_cidrs=plan.request.network.api_cidrs,
        log_types=eks.LOG_TYPES,
        addons=tuple(Tag(key=name, value=version) for name, version in eks.ADDONS),
        groups=groups,
        settings={"coredns": json.dumps(eks.ONE_REPLICA["coredns"])},
    )


def system_group(plan: Plan) -> NodeGroupContext:
    """One node for the cluster's own pods: DNS, webhooks, controllers. At times all job nodes may be gone.

    A Fargate profile would suffice for some of these pods, but Fargate runs no DaemonSet, and a private API is only
    reachable through an instance.
    """
    return NodeGroupContext(
        name=eks.SYSTEM,
        instance_type=sizing.head_node(plan.place.nodes, plan.request.storage.head_node),
        ami_type=eks.STANDARD,
        capacity_type="ON_DEMAND",
        minimum=1,
        count=1,
        desired=1,
        volume_gib=sizing.HEAD_ROOT_GIB,
        volume_key_arn=plan.request.storage.kms_key_arn,
        group_ids=plan.request.network.security_group_ids,
        interfaces=(),
        placement_group=False,
        reservation_id=None,
        local_storage=False,
        repair=True,
        taint=None,
    )


def user_data(*, local_storage: bool, reports: str | None) -> str | None:
    """The user data of a group's nodes; None if they need none.

    `local_storage` joins NVMe disks into one volume for the folders of kubelet and containerd (EKS AMI, nodeadm, local
    storage). Nodes report their boots to `reports`, an S3 URI.
    """
    if not local_storage and reports is None:
        return None
    joined = reporting(JOINED).rstrip("\n")
    return render_template("eks/user_data.txt.j2", local_storage=local_storage, reports=reports, joined=joined)


def _workers(plan: Plan, facts: InstanceType) -> NodeGroupContext:
    """The jobs' node group; a launch sets the size of a Capacity Block's group after the block has begun.

    EKS user guide, create a managed node group with Capacity Blocks: the desired size is 0 until the block is active.
    """
    place, reservation, placement = plan.place, plan.request.purchase.reservation, plan.request.target.placement_group
    # With a reservation a placement group makes EC2 answer "insufficient capacity" (terraform-aws-eks#3730).
    together = facts.efa_interfaces > 0 and place.nodes > 1 if placement is None else placement
    return NodeGroupContext(
        name=eks.WORKERS,
        instance_type=facts.name,
        ami_type=eks.image_type(facts),
        capacity_type=eks.CAPACITY_TYPES[place.option],
        minimum=0,
        count=place.nodes,
        desired=0 if place.option in PREPAID else place.nodes,
        volume_gib=sizing.COMPUTE_ROOT_GIB,
        volume_key_arn=plan.request.storage.kms_key_arn,
        group_ids=plan.request.network.security_group_ids,
        interfaces=eks.interfaces(facts, plan.request.target.efa_layout),
        placement_group=reservation is None and together,
        reservation_id=reservation.id if reservation is not None else None,
        local_storage=facts.nvme_gb > 0,
        repair=True,
        taint=resource_name(facts),
    )


class EksFiles(PodFiles):
    """An EKS cluster of node groups, and jobs as pods."""

    def findings(self, plan: Plan, instances: Mapping[str, InstanceType]) -> tuple[Finding, ...]:
        """Why Slipway cannot create an EKS cluster or a job for the plan; empty if it can."""
        place = plan.place
        if place.target is not TargetKind.EKS:
            return (error("not-eks", "target.kind", f"{place.target} is not an EKS cluster with node groups"),)
        if unknown := unknown_types(plan, instances):
            return unknown
        problems = (
            *Eks().refusals(plan.request, place, instances),
            *unnamed_capacity(plan.request, plan.place),
            *notify_findings(plan),
        )
        return (
            problems if plan.request.workload.train is None else (*problems, *kubernetes_job.findings(plan, instances))
        )

    def cluster_files(
        self, plan: Plan, instances: Mapping[str, InstanceType], names: ClusterNames
    ) -> list[RenderedFile]:
        """The files of the cluster to deploy, and the manifests to apply once."""
        shown = render_template("eks/cluster.yaml.j2", eks_context(plan, instances))
        return [
            RenderedFile(path=CLUSTER_FILE, text=shown),
            *plugin_files(instances[plan.place.instance_type], instances),
        ]
