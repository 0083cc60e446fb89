"""Renders a HyperPod cluster with Slurm: every decision, for the preview and for the deployment."""

from collections.abc import Mapping
from typing import Any

from launcher.model import hyperpod, sizing
from launcher.model.bundle import RenderedFile
from launcher.model.enums import EfaLayout, PurchaseOption, TargetKind
from launcher.model.errors import ImpossibleError
from launcher.model.finding import Finding, error
from launcher.model.hyperpod import MOUNT_PATH, USER, replaces_failed_starts
from launcher.model.instance_type import InstanceType
from launcher.model.plan import Plan
from launcher.planning.targets import unnamed_capacity
from launcher.rendering.cluster import (
    CLUSTER_FILE,
    cluster_name,
    notify_findings,
    queue_name,
    tags,
    unknown_types,
)
from launcher.rendering.engine import render_template
from launcher.rendering.names import ClusterNames
from launcher.rendering.node import efa_check, is_nvidia, metrics_script, node_script, reporting_arguments
from launcher.rendering.target_files import TargetFiles
from launcher.targets.bases import HyperPodTarget
from launcher.targets.hyperpod_slurm.target import HyperPodSlurm

ENTRY_POINT = "on_create.sh"
LIFECYCLE_FOLDER = "lifecycle"


def instance_findings(target: HyperPodTarget, plan: Plan, instances: Mapping[str, InstanceType]) -> tuple[Finding, ...]:
    """Why HyperPod cannot provide the plan's nodes, for any scheduler; empty if it can."""
    unknown = unknown_types(plan, instances)
    return unknown or (
        *target.refusals(plan.request, plan.place, instances),
        *unnamed_capacity(plan.request, plan.place),
    )


def cluster_text(plan: Plan, *, instances: Mapping[str, InstanceType], names: ClusterNames) -> str:
    """The text of the request that creates a plan's cluster.

    Raises:
        ImpossibleError: no cluster can be created, with all reasons.
        ValueError: a name that only HyperPod uses is missing.
    """
    problems = HyperPodSlurmFiles().findings(plan, instances)
    if problems:
        raise ImpossibleError(f"{plan.name} does not create a HyperPod cluster", findings=problems)
    if None in (names.role_arn, names.lifecycle_uri, names.lustre_dns_name, names.lustre_mount_name):
        message = "role, lifecycle scripts and file system of a HyperPod cluster must have names"
        raise ValueError(message)
    return render_template(
        "hyperpod/cluster.yaml.j2",
        cluster_name=cluster_name(plan),
        groups=_groups(plan, instances[plan.place.instance_type]),
        continuous=replaces_failed_starts(
            plan.place.option, pods=False, keyed=plan.request.storage.kms_key_arn is not None
        ),
        ami=plan.request.target.ami,
        role_arn=names.role_arn or "",
        subnet_id=names.subnet_id,
        security_group_ids=(names.security_group_id, *plan.request.network.security_group_ids),
        lifecycle_uri=names.lifecycle_uri or "",
        entry_point=ENTRY_POINT,
        lustre_dns_name=names.lustre_dns_name or "",
        lustre_mount_name=names.lustre_mount_name or "",
        mount_path=MOUNT_PATH,
        volume_key_arn=plan.request.storage.kms_key_arn,
        tags=tags(plan),
    )


def _groups(plan: Plan, facts: InstanceType) -> list[dict[str, Any]]:
    place, storage = plan.place, plan.request.storage
    head = sizing.head_node(place.nodes, storage.head_node)
    groups = [plain_group(hyperpod.CONTROLLER, head, 1, node_type="Controller", partition=None)]
    if storage.login_nodes:
        login = plain_group(hyperpod.LOGIN, sizing.LOGIN_NODE, storage.login_nodes, node_type="Login", partition=None)
        groups.append(login)
    return [*groups, worker_group(plan, facts, node_type="Compute", partition=queue_name(place.instance_type))]


def plain_group(name: str, instance_type: str, count: int, **more: object) -> dict[str, Any]:
    """An on-demand instance group without health checks; `more` holds the scheduler's additions."""
    return {
        "name": name,
        "instance_type": hyperpod.ml_name(instance_type),
        "count": count,
        "health_checks": (),
        "training_plan_arn": None,
        "spot": False,
        "interface_type": None,
        **more,
    }


def worker_group(plan: Plan, facts: InstanceType, **more: object) -> dict[str, Any]:
    """The instance group of the jobs' nodes, all of them from the start; `more` holds the scheduler's additions."""
    place, bought = plan.place, plan.request.purchase.training_plan
    classic = plan.request.target.efa_layout is EfaLayout.CLASSIC and facts.efa_interfaces > 0
    return plain_group(hyperpod.WORKERS, facts.name, place.nodes) | {
        "health_checks": hyperpod.deep_health_checks(facts, nodes=place.nodes),
        "training_plan_arn": bought.arn if bought is not None else None,
        "spot": place.option is PurchaseOption.SPOT,
        # Left out, the layout is the service's own; efa is the combined one, with an address for each card.
        "interface_type": "efa" if classic else None,
        **more,
    }


def lifecycle_files(plan: Plan, instances: Mapping[str, InstanceType]) -> dict[str, str]:
    """The text of the files that HyperPod downloads to every node, by name; HyperPod runs ENTRY_POINT."""
    facts = instances[plan.place.instance_type]
    family = "nvidia" if is_nvidia(facts) else "neuron" if facts.neuron else None
    script = render_template(
        "hyperpod/on_create.sh.j2",
        cluster=plan.cluster_name,
        region=plan.place.region,
        controller=hyperpod.CONTROLLER,
        login=hyperpod.LOGIN,
        workers=hyperpod.WORKERS,
        instance_type=facts.name,
        family=family,
        accelerators=facts.accelerators,
        efa_interfaces=facts.required_efa(plan.place.nodes),
        efa_check=efa_check(),
        nvme=facts.nvme_gb > 0,
        mount_path=MOUNT_PATH,
        user=USER,
        node_setup=reporting_arguments(facts, cluster=plan.cluster_name, python="python3"),
    )
    return {ENTRY_POINT: script, "node.sh": node_script(), "metrics.py": metrics_script()}


class HyperPodSlurmFiles(TargetFiles):
    """A HyperPod cluster with Slurm, and its jobs."""

    def findings(self, plan: Plan, instances: Mapping[str, InstanceType]) -> tuple[Finding, ...]:
        """Why Slipway cannot create a HyperPod cluster for the plan; empty if it can."""
        if plan.place.target is not TargetKind.HYPERPOD_SLURM:
            return (error("not-hyperpod", "target.kind", f"{plan.place.target} is not a HyperPod cluster with Slurm"),)
        problems = instance_findings(HyperPodSlurm(), plan, instances)
        return problems if plan.place.instance_type not in instances else (*problems, *notify_findings(plan))

    def cluster_files(
        self, plan: Plan, instances: Mapping[str, InstanceType], names: ClusterNames
    ) -> list[RenderedFile]:
        """The request that creates the cluster, and the folder that HyperPod downloads to every node."""
        text = cluster_text(plan, instances=instances, names=names)
        scripts = lifecycle_files(plan, instances).items()
        files = [RenderedFile(path=CLUSTER_FILE, text=text)]
        files += [
            RenderedFile(path=f"{LIFECYCLE_FOLDER}/{name}", text=script, executable=True) for name, script in scripts
        ]
        return files
