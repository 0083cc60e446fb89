"""A HyperPod cluster with Slurm: every decision of it, for what is shown and for what is deployed."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from launcher.catalog import safe_yaml
from launcher.model import hyperpod, sizing
from launcher.model.bundle import RenderedFile
from launcher.model.enums import EfaLayout, PurchaseOption, TargetKind
from launcher.model.errors import ImpossibleError
from launcher.model.finding import Finding, error
from launcher.model.hyperpod import MOUNT_PATH, USER
from launcher.model.instance_type import InstanceType
from launcher.model.plan import Place, Plan
from launcher.model.request import PlanRequest
from launcher.rendering.cluster import CLUSTER_FILE, Tag, cluster_name, notify_findings, queue_name, tags
from launcher.rendering.engine import rendered
from launcher.rendering.names import ClusterNames
from launcher.rendering.node import (
    NODE_SCRIPT,
    efa_check,
    is_nvidia,
    metrics_script,
    reporting_arguments,
    script_text,
)
from launcher.rendering.targets import Writer
from launcher.targets.hyperpod_slurm.rules import refusals

ENTRY_POINT = "on_create.sh"
LIFECYCLE_FOLDER = "lifecycle"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupContext:
    """An instance group of HyperPod.

    `node_type` is Slurm's part as SageMaker names it (Controller, Login, Compute), `partition` the queue of a Compute
    group. `health_checks` run before its instances take jobs. `interface_type` is the kind of its EFA interfaces, None
    for the service's own choice.
    """

    name: str
    node_type: str
    instance_type: str
    count: int
    partition: str | None
    health_checks: tuple[str, ...]
    training_plan_arn: str | None
    spot: bool
    interface_type: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HyperPodContext:
    """A request that makes a HyperPod cluster with Slurm (templates/hyperpod/cluster.yaml.j2).

    `continuous` has HyperPod provide instances one by one and try again. `lifecycle_uri` is a folder in S3 that holds
    the scripts, `entry_point` the one that is run. Ids, ARNs and names may be CDK tokens.
    """

    cluster_name: str
    groups: tuple[GroupContext, ...]
    continuous: bool
    ami: str | None
    role_arn: str
    subnet_id: str
    security_group_ids: tuple[str, ...]
    lifecycle_uri: str
    entry_point: str
    lustre_dns_name: str
    lustre_mount_name: str
    mount_path: str
    volume_key_arn: str | None
    tags: tuple[Tag, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LifecycleContext:
    """What HyperPod runs on every machine that it makes (templates/hyperpod/on_create.sh.j2).

    `controller`, `login` and `workers` are instance groups. `family` is the workers' accelerators, "nvidia", "neuron"
    or None; `accelerators` and `efa_interfaces` are the numbers that every worker must show, and `efa_check` the shell
    function that counts the second; `nvme` says whether it has disks. `node_setup` holds the arguments of node.sh.
    """

    cluster: str
    region: str
    controller: str
    login: str
    workers: str
    instance_type: str
    family: str | None
    accelerators: int
    efa_interfaces: int
    efa_check: str
    nvme: bool
    mount_path: str
    user: str
    node_setup: tuple[str, ...]


def findings(plan: Plan, instances: Mapping[str, InstanceType]) -> tuple[Finding, ...]:
    """Why a plan makes no HyperPod cluster; empty when it does."""
    if plan.place.target is not TargetKind.HYPERPOD_SLURM:
        return (error("not-hyperpod", "target.kind", f"{plan.place.target} is no HyperPod cluster with Slurm"),)
    found = machine_findings(plan, instances, refusals)
    return found if plan.place.instance_type not in instances else (*found, *notify_findings(plan))


def machine_findings(
    plan: Plan,
    instances: Mapping[str, InstanceType],
    refused: Callable[[PlanRequest, Place, Mapping[str, InstanceType]], Iterable[Finding]],
) -> tuple[Finding, ...]:
    """Why HyperPod has no such machines, whatever schedules the jobs on them.

    Args:
        plan: a plan for HyperPod.
        instances: the catalog's types, by name.
        refused: what the kind of target refuses of a request at a place.
    """
    place = plan.place
    if place.instance_type not in instances:
        message = f"no instance type {place.instance_type} in the catalog"
        return (error("unknown-instance-type", "target", message),)
    found = list(refused(plan.request, place, instances))
    if place.option is PurchaseOption.TRAINING_PLAN and plan.request.purchase.training_plan is None:
        message = "instances of a training plan need the ARN of the one that was bought"
        found.append(error("plan-without-arn", "purchase.training_plan", message, "give purchase.training_plan.arn"))
    return tuple(found)


def hyperpod_context(plan: Plan, *, instances: Mapping[str, InstanceType], names: ClusterNames) -> HyperPodContext:
    """Every decision of a plan's cluster.

    Args:
        plan: a plan for HyperPod with Slurm.
        instances: the catalog's types, by name.
        names: what the cluster refers to, HyperPod's own names among them.

    Raises:
        ImpossibleError: no cluster can be made, with all reasons.
        ValueError: a name that only HyperPod has is missing.
    """
    found = findings(plan, instances)
    if found:
        raise ImpossibleError(f"{plan.name} makes no HyperPod cluster", findings=found)
    if None in (names.role_arn, names.lifecycle_uri, names.lustre_dns_name, names.lustre_mount_name):
        message = "role, lifecycle scripts and file system of a HyperPod cluster must have names"
        raise ValueError(message)
    return HyperPodContext(
        cluster_name=cluster_name(plan),
        groups=tuple(_groups(plan, instances[plan.place.instance_type])),
        continuous=plan.place.option is PurchaseOption.SPOT,
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


def _groups(plan: Plan, facts: InstanceType) -> list[GroupContext]:
    place, storage = plan.place, plan.request.storage
    groups = [_plain_group(hyperpod.CONTROLLER, "Controller", sizing.head_node(place.nodes, storage.head_node), 1)]
    if storage.login_nodes:
        groups.append(_plain_group(hyperpod.LOGIN, "Login", sizing.LOGIN_NODE, storage.login_nodes))
    bought = plan.request.purchase.training_plan
    groups.append(
        GroupContext(
            name=hyperpod.WORKERS,
            node_type="Compute",
            instance_type=hyperpod.ml_name(place.instance_type),
            count=place.nodes,
            partition=queue_name(place.instance_type),
            health_checks=hyperpod.deep_health_checks(facts, nodes=place.nodes),
            training_plan_arn=bought.arn if bought is not None else None,
            spot=place.option is PurchaseOption.SPOT,
            # Left out, the layout is the service's own; efa is the combined one, with an address for each card.
            interface_type="efa" if _is_classic(plan) and facts.efa_interfaces else None,
        )
    )
    return groups


def _is_classic(plan: Plan) -> bool:
    return plan.request.target.efa_layout is EfaLayout.CLASSIC


def _plain_group(name: str, node_type: str, instance_type: str, count: int) -> GroupContext:
    return GroupContext(
        name=name,
        node_type=node_type,
        instance_type=hyperpod.ml_name(instance_type),
        count=count,
        partition=None,
        health_checks=(),
        training_plan_arn=None,
        spot=False,
        interface_type=None,
    )


def cluster_text(context: HyperPodContext) -> str:
    """The text of the request that makes the cluster."""
    return rendered("hyperpod/cluster.yaml.j2", context)


def cluster_request(context: HyperPodContext) -> dict[str, Any]:
    """The request as typed data: the very text that is shown, read back."""
    request: dict[str, Any] = safe_yaml.loads(cluster_text(context))
    return request


def lifecycle_files(plan: Plan, instances: Mapping[str, InstanceType]) -> dict[str, str]:
    """The text of the files that HyperPod fetches for every machine, by name; ENTRY_POINT is run."""
    facts = instances[plan.place.instance_type]
    family = "nvidia" if is_nvidia(facts) else "neuron" if facts.neuron else None
    context = LifecycleContext(
        cluster=plan.cluster_name,
        region=plan.place.region,
        controller=hyperpod.CONTROLLER,
        login=hyperpod.LOGIN,
        workers=hyperpod.WORKERS,
        instance_type=facts.name,
        family=family,
        accelerators=facts.accelerators,
        efa_interfaces=facts.efa_interfaces,
        efa_check=efa_check(),
        nvme=facts.nvme_gb > 0,
        mount_path=MOUNT_PATH,
        user=USER,
        node_setup=reporting_arguments(facts, cluster=plan.cluster_name, python="python3"),
    )
    return {
        ENTRY_POINT: rendered("hyperpod/on_create.sh.j2", context),
        "node.sh": script_text(NODE_SCRIPT),
        "metrics.py": metrics_script(),
    }


def cluster_files(plan: Plan, instances: Mapping[str, InstanceType], names: ClusterNames) -> list[RenderedFile]:
    """The request that makes the cluster, and the folder that HyperPod fetches for every machine."""
    text = cluster_text(hyperpod_context(plan, instances=instances, names=names))
    scripts = lifecycle_files(plan, instances).items()
    files = [RenderedFile(path=CLUSTER_FILE, text=text)]
    files += [RenderedFile(path=f"{LIFECYCLE_FOLDER}/{name}", text=each, executable=True) for name, each in scripts]
    return files


RENDER = Writer(findings=findings, cluster_files=cluster_files)
