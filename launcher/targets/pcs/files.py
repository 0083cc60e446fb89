"""Renders a cluster of AWS PCS: every decision, for the preview and for the deployment."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from launcher.model import pcs, sizing
from launcher.model.bundle import RenderedFile
from launcher.model.eks import Interface
from launcher.model.enums import PurchaseOption, TargetKind
from launcher.model.errors import ImpossibleError
from launcher.model.finding import Finding, error
from launcher.model.idle import NEVER_MINUTES, idle_minutes
from launcher.model.instance_type import InstanceType
from launcher.model.plan import Plan
from launcher.model.tags import Tag
from launcher.planning.targets import unnamed_capacity
from launcher.rendering.cluster import (
    CLUSTER_FILE,
    cluster_name,
    notify_findings,
    queue_name,
    repeated_types,
    unknown_types,
)
from launcher.rendering.engine import render_template
from launcher.rendering.names import ClusterNames
from launcher.rendering.node import (
    boot_reports,
    efa_check,
    is_nvidia,
    login_boots_uri,
    metrics_script,
    node_arguments,
    node_script,
    report_boot,
    script_text,
)
from launcher.rendering.target_files import TargetFiles
from launcher.targets.pcs.target import Pcs

MACHINE_FILE, NODE_FILE, METRICS_FILE, USER_DATA_FILE = "machine.sh", "node.sh", "metrics.py", "user_data.txt"
USER_DATA = "templates/pcs/user_data.txt"
MAX_IDLE_S = 10_000_000
"""Of ScaleDownIdleTimeInSeconds (botocore 1.44.5)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupContext:
    """A compute node group with its launch template."""

    name: str
    # The only queue that uses it; None for the login node.
    queue: str | None
    instance_type: str
    # PCS's term: ONDEMAND, SPOT or CAPACITY_BLOCK.
    purchase: str
    minimum: int
    maximum: int
    interfaces: tuple[Interface, ...]
    placement_group: bool
    # A capacity reservation, or None.
    reservation_id: str | None
    volume_gib: int
    # The arguments of machine.sh.
    instance_arguments: tuple[str, ...]
    # Those of node.sh; empty if it does not run.
    node_arguments: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PcsContext:
    """A PCS cluster (templates/pcs/cluster.yaml.j2). Ids and ARNs may be CDK tokens."""

    name: str
    size: str
    slurm_version: str
    # Lines of slurm.conf.
    settings: tuple[Tag, ...]
    # Seconds without a job after which a node ends.
    idle_s: int
    # How long accounting retains records.
    purge_days: int
    # The id of an AMI; None for the PCS-ready AMI that a deployment pins.
    image: str | None
    image_parameter: str
    root_device: str
    metadata_hops: int
    volume_key_arn: str | None
    subnet_id: str
    # Security groups in addition to the cluster's own.
    group_ids: tuple[str, ...]
    groups: tuple[GroupContext, ...]


def cluster_context(plan: Plan, *, instances: Mapping[str, InstanceType], names: ClusterNames) -> PcsContext:
    """Every decision about a plan's cluster.

    `names` are ids, or CDK tokens in their place.

    Raises:
        ImpossibleError: no cluster can be created, with all reasons.
    """
    problems = PcsFiles().findings(plan, instances)
    size = pcs.size_of(plan.request, plan.place.nodes)
    if problems or size is None:
        raise ImpossibleError(f"{plan.name} does not create a PCS cluster", findings=problems)
    request, place = plan.request, plan.place
    group = _compute(plan, instances[place.instance_type], names, pcs.PURCHASES[place.option])
    fallback = "SPOT" if place.option is PurchaseOption.SPOT else "ONDEMAND"
    others = [_compute(plan, instances[name], names, fallback) for name in request.target.fallback_types]
    return PcsContext(
        name=cluster_name(plan),
        size=size.name,
        slurm_version=pcs.SLURM_VERSION,
        settings=tuple(Tag(key=key, value=value) for key, value in pcs.SETTINGS),
        idle_s=min(MAX_IDLE_S, max(1, math.ceil(60 * (idle_minutes(request) or NEVER_MINUTES)))),
        purge_days=pcs.PURGE_DAYS,
        image=request.target.ami,
        image_parameter=pcs.IMAGE_PARAMETER,
        root_device=pcs.ROOT_DEVICE,
        metadata_hops=pcs.METADATA_HOPS,
        volume_key_arn=request.storage.kms_key_arn,
        subnet_id=names.subnet_id,
        group_ids=(names.security_group_id, *request.network.security_group_ids),
        groups=(_login(plan, names), group, *others),
    )


def _login(plan: Plan, names: ClusterNames) -> GroupContext:
    return GroupContext(
        name=pcs.LOGIN,
        queue=None,
        instance_type=Pcs().head_instance(plan.place.nodes, plan.request.storage.head_node),
        purchase="ONDEMAND",
        minimum=1,
        maximum=1,
        interfaces=(),
        placement_group=False,
        reservation_id=None,
        volume_gib=sizing.HEAD_ROOT_GIB,
        instance_arguments=(
            *_mounts(names),
            *(() if names.message_uri is None else (f"--reports={login_boots_uri(names.message_uri)}",)),
        ),
        node_arguments=(),
    )


def _compute(plan: Plan, facts: InstanceType, names: ClusterNames, purchase: str) -> GroupContext:
    """Nodes of one type: those of a Capacity Block are always up, all others start with jobs."""
    place, target, reservation = plan.place, plan.request.target, plan.request.purchase.reservation
    reserved = reservation if facts.name == place.instance_type else None
    placement_wanted = target.placement_group
    chips = f"--chips={'nvidia' if is_nvidia(facts) else 'neuron'}:{facts.accelerators}"
    return GroupContext(
        name=queue_name(facts.name),
        queue=queue_name(facts.name),
        instance_type=facts.name,
        purchase=purchase,
        minimum=place.nodes if purchase == pcs.PURCHASES[PurchaseOption.CAPACITY_BLOCK] else 0,
        maximum=place.nodes,
        interfaces=pcs.interfaces(facts),
        placement_group=reserved is None
        and (facts.efa_interfaces > 0 if placement_wanted is None else placement_wanted),
        reservation_id=None if reserved is None else reserved.id,
        volume_gib=sizing.COMPUTE_ROOT_GIB,
        instance_arguments=(
            *_mounts(names),
            *((chips,) if facts.accelerators else ()),
            *((f"--efa={efa}",) if (efa := facts.required_efa(plan.place.nodes)) else ()),
            *(("--nvme",) if facts.nvme_gb else ()),
            f"--type={facts.name}",
            *boot_reports(names.message_uri),
        ),
        node_arguments=node_arguments(
            facts, target.os, baked=True, cluster=plan.cluster_name, metrics_uri=names.node_metrics_uri
        ),
    )


def _mounts(names: ClusterNames) -> tuple[str, ...]:
    return (f"--lustre={names.lustre_dns_name}", f"--mount-name={names.lustre_mount_name}")


def instance_script() -> str:
    """The text of the script that every node runs before Slurm's daemon starts."""
    return render_template(
        "pcs/machine.sh.j2",
        efa_check=efa_check(),
        report_boot=report_boot(),
        binaries=pcs.BINARIES,
        mount_path=pcs.MOUNT_PATH,
        user=pcs.USER,
    )


class PcsFiles(TargetFiles):
    """A PCS cluster, and jobs of Slurm."""

    def findings(self, plan: Plan, instances: Mapping[str, InstanceType]) -> tuple[Finding, ...]:
        """Why Slipway cannot create a PCS cluster for the plan; empty if it can."""
        place = plan.place
        if place.target is not TargetKind.PCS:
            return (error("not-pcs", "target.kind", f"{place.target} is not a PCS cluster"),)
        if unknown := unknown_types(plan, instances):
            return unknown
        refused = Pcs().refusals(plan.request, place, instances)
        return (*refused, *unnamed_capacity(plan.request, plan.place), *repeated_types(plan), *notify_findings(plan))

    def cluster_files(
        self, plan: Plan, instances: Mapping[str, InstanceType], names: ClusterNames
    ) -> list[RenderedFile]:
        """The files of the cluster to deploy, and the files that set up its nodes."""
        shown = render_template("pcs/cluster.yaml.j2", cluster_context(plan, instances=instances, names=names))
        return [
            RenderedFile(path=CLUSTER_FILE, text=shown),
            RenderedFile(path=MACHINE_FILE, text=instance_script(), executable=True),
            RenderedFile(path=NODE_FILE, text=node_script(), executable=True),
            RenderedFile(path=METRICS_FILE, text=metrics_script()),
            RenderedFile(path=USER_DATA_FILE, text=script_text(USER_DATA)),
        ]
