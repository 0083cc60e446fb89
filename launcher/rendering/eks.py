"""An EKS cluster of node groups: every decision of it, for what is shown and for what is deployed."""

from collections.abc import Mapping

import yaml

from launcher.catalog.serving_images import load_images
from launcher.model import eks, sizing
from launcher.model.bundle import RenderedFile
from launcher.model.enums import PurchaseOption, TargetKind
from launcher.model.errors import ImpossibleError
from launcher.model.finding import Finding, error
from launcher.model.hyperpod import is_prepaid
from launcher.model.instance_type import InstanceType
from launcher.model.plan import Plan
from launcher.planning.eks import refusals
from launcher.rendering import kubernetes_job
from launcher.rendering.cluster import CLUSTER_FILE, cluster_name, notify_findings
from launcher.rendering.contexts import Tag
from launcher.rendering.efa_rules import plugin_findings
from launcher.rendering.eks_contexts import EksContext, NodeGroupContext, PluginsContext
from launcher.rendering.engine import rendered
from launcher.rendering.kubernetes_pod import resource_name
from launcher.rendering.names import ClusterNames
from launcher.rendering.node import is_nvidia

PLUGINS_FILE = "kubernetes/plugins.yaml"
NEURON_FILE = "kubernetes/device-plugin.yaml"
NVIDIA_PLUGIN = "nvcr.io/nvidia/k8s-device-plugin:v0.17.0"
EFA_PLUGIN = "602401143452.dkr.ecr.us-west-2.amazonaws.com/eks/aws-efa-k8s-device-plugin:v0.5.20"
"""What the charts of NVIDIA/k8s-device-plugin and aws/eks-charts install, in 2026; EKS's registry answers nodes of all
regions."""


def findings(plan: Plan, instances: Mapping[str, InstanceType]) -> tuple[Finding, ...]:
    """Why a plan makes no EKS cluster, or no job for one; empty when it does."""
    place = plan.place
    if place.target is not TargetKind.EKS:
        return (error("not-eks", "target.kind", f"{place.target} is no EKS cluster of node groups"),)
    if place.instance_type not in instances:
        message = f"no instance type {place.instance_type} in the catalog"
        return (error("unknown-instance-type", "target", message),)
    found = list(refusals(plan.request, place, instances))
    if place.option is PurchaseOption.CAPACITY_BLOCK and plan.request.purchase.reservation is None:
        message = "nodes of a Capacity Block need the id of the block that was bought"
        found.append(error("block-without-id", "purchase.reservation", message, "give purchase.reservation.id"))
    found += notify_findings(plan)
    if plan.request.workload.train is not None:
        found += kubernetes_job.findings(plan, instances)
    return tuple(found)


def eks_context(plan: Plan, instances: Mapping[str, InstanceType]) -> EksContext:
    """Every decision of a plan's cluster.

    Raises:
        ImpossibleError: no cluster can be made, with all reasons.
    """
    found = findings(plan, instances)
    if found:
        raise ImpossibleError(f"{plan.name} makes no EKS cluster", findings=found)
    workers = _workers(plan, instances[plan.place.instance_type])
    return cluster_context(plan, groups=(system_group(plan), workers))


def cluster_context(plan: Plan, *, groups: tuple[NodeGroupContext, ...]) -> EksContext:
    """A plan's EKS cluster with some node groups."""
    return EksContext(
        name=cluster_name(plan),
        version=eks.VERSION,
        public_cidrs=plan.request.network.api_cidrs,
        log_types=eks.LOG_TYPES,
        addons=tuple(Tag(key=name, value=version) for name, version in eks.ADDONS),
        groups=groups,
    )


def system_group(plan: Plan) -> NodeGroupContext:
    """One machine for the cluster's own pods: names, webhooks, controllers. Jobs' nodes may all be gone meanwhile.

    A Fargate profile would do for some of them, but takes no DaemonSet, and an API that is private is reached through a
    machine.
    """
    return NodeGroupContext(
        name=eks.SYSTEM,
        instance_type=sizing.head_node(plan.place.nodes, plan.request.storage.head_node),
        ami_type=eks.STANDARD,
        capacity_type="ON_DEMAND",
        minimum=1,
        count=1,
        volume_gib=sizing.HEAD_ROOT_GIB,
        volume_key_arn=plan.request.storage.kms_key_arn,
        group_ids=plan.request.network.security_group_ids,
        interfaces=(),
        placement_group=False,
        reservation_id=None,
        local_storage=False,
        repair=True,
    )


def _workers(plan: Plan, facts: InstanceType) -> NodeGroupContext:
    """The machines of the jobs; a block is prepaid and is never let go."""
    place, reservation, wanted = plan.place, plan.request.purchase.reservation, plan.request.target.placement_group
    # With a reservation a placement group makes EC2 answer "insufficient capacity" (terraform-aws-eks#3730).
    together = facts.efa_interfaces > 0 and place.nodes > 1 if wanted is None else wanted
    return NodeGroupContext(
        name=eks.WORKERS,
        instance_type=facts.name,
        ami_type=eks.image_type(facts),
        capacity_type=eks.CAPACITY_TYPES[place.option],
        minimum=place.nodes if is_prepaid(place.option) else 0,
        count=place.nodes,
        volume_gib=sizing.COMPUTE_ROOT_GIB,
        volume_key_arn=plan.request.storage.kms_key_arn,
        group_ids=plan.request.network.security_group_ids,
        interfaces=eks.interfaces(facts, plan.request.target.efa_layout),
        placement_group=reservation is None and together,
        reservation_id=reservation.id if reservation is not None else None,
        local_storage=facts.nvme_gb > 0,
        repair=True,
    )


def cluster_files(plan: Plan, instances: Mapping[str, InstanceType], _names: ClusterNames) -> list[RenderedFile]:
    """The cluster as it is deployed, and what is applied to it once."""
    shown = rendered("eks/cluster.yaml.j2", eks_context(plan, instances))
    return [RenderedFile(path=CLUSTER_FILE, text=shown), *plugin_files(instances[plan.place.instance_type])]


def plugin_files(facts: InstanceType) -> list[RenderedFile]:
    """What shows a type's chips and interfaces to Kubernetes; nothing for a type without either.

    Raises:
        ImpossibleError: as the template is written, nodes would not show their EFA interfaces.
    """
    context = _plugins(facts)
    files = []
    if context.nvidia_plugin or context.efa_plugin:
        files.append(RenderedFile(path=PLUGINS_FILE, text=rendered("kubernetes/plugins.yaml.j2", context)))
    shown = [each for file in files for each in yaml.safe_load_all(file.text)]
    lost = tuple(plugin_findings(shown, facts, where="templates/kubernetes/plugins.yaml.j2"))
    if lost:
        raise ImpossibleError(f"nodes of {facts.name} would show no EFA", findings=lost)
    if context.device_plugin:
        files.append(RenderedFile(path=NEURON_FILE, text=rendered("kubernetes/device-plugin.yaml.j2", context)))
    return files


def _plugins(facts: InstanceType) -> PluginsContext:
    """The plugins that a type's nodes need."""
    neuron = neuron_plugin() if facts.neuron else None
    return PluginsContext(
        resource=resource_name(facts) or "",
        nvidia_plugin=NVIDIA_PLUGIN if is_nvidia(facts) else None,
        efa_plugin=EFA_PLUGIN if facts.efa_interfaces else None,
        device_plugin=neuron,
        instance_types=(facts.name,),
        neuron_types=(facts.name,) if facts.neuron else (),
    )


def neuron_plugin() -> str | None:
    """Neuron's device plugin, which is one for all of its chips; None where none is known."""
    found = (f"{each.repository}:{each.tag}" for each in load_images().images if each.role == "device-plugin")
    return next(found, None)
