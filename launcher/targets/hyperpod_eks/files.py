"""Renders a HyperPod cluster with EKS: every decision, for the preview and for the deployment."""

import json
from collections.abc import Mapping
from typing import Any

from launcher.catalog import safe_yaml
from launcher.catalog.hyperpod_chart import chart_pins
from launcher.model import eks, sizing
from launcher.model.bundle import RenderedFile
from launcher.model.enums import TargetKind
from launcher.model.errors import ImpossibleError
from launcher.model.finding import Finding, error
from launcher.model.hyperpod import ml_name
from launcher.model.instance_type import InstanceType
from launcher.model.kubernetes import team_queue
from launcher.model.plan import Plan
from launcher.model.tags import Tag
from launcher.rendering import kubernetes_job
from launcher.rendering.cluster import CLUSTER_FILE, cluster_name, notify_findings, tags
from launcher.rendering.efa_rules import chart_findings
from launcher.rendering.engine import render_template
from launcher.rendering.names import ClusterNames
from launcher.rendering.node import is_nvidia
from launcher.rendering.target_files import PodFiles
from launcher.targets.eks.files import EksContext, cluster_context
from launcher.targets.hyperpod_eks.target import HyperPodEks
from launcher.targets.hyperpod_slurm.files import (
    ENTRY_POINT,
    LIFECYCLE_FOLDER,
    instance_findings,
    plain_group,
    worker_group,
)

NODES_FILE, VALUES_FILE, GOVERNANCE_FILE = "hyperpod.yaml", "chart-values.yaml", "governance.yaml"
_VALUES = "hyperpod/chart-values.yaml.j2"
FOR_THE_OPERATOR = Tag(key="SageMaker", value="true")
"""AWS's policy for the training operator allows only clusters with this tag (developer guide, training operator)."""


def control_context(plan: Plan) -> EksContext:
    """The control plane: HyperPod owns its nodes, so it has no node groups and no node monitor of its own."""
    context = cluster_context(plan, groups=())
    addons = eks.hyperpod_addons(governed=team_queue(plan.request.target.queue) is not None)
    return EksContext(
        name=context.name,
        version=context.version,
        public_cidrs=context.public_cidrs,
        log_types=context.log_types,
        addons=tuple(Tag(key=name, value=version) for name, version in addons),
        groups=(),
        settings={name: json.dumps(values) for name, values in eks.ONE_REPLICA.items()},
    )


def nodes_text(plan: Plan, *, instances: Mapping[str, InstanceType], names: ClusterNames) -> str:
    """The text of the request that creates a plan's nodes.

    Raises:
        ImpossibleError: no cluster can be created, with all reasons.
        ValueError: a name that only HyperPod uses is missing.
    """
    problems = HyperPodEksFiles().findings(plan, instances)
    if problems:
        raise ImpossibleError(f"{plan.name} does not create a HyperPod cluster with EKS", findings=problems)
    if names.role_arn is None or names.lifecycle_uri is None or names.eks_arn is None:
        message = "role, lifecycle script and control plane of a HyperPod cluster must have names"
        raise ValueError(message)
    return render_template(
        "hyperpod/eks.yaml.j2",
        cluster_name=cluster_name(plan),
        eks_arn=names.eks_arn,
        groups=(_system(plan), worker_group(plan, instances[plan.place.instance_type], least=None)),
        ami=plan.request.target.ami,
        role_arn=names.role_arn,
        subnet_id=names.subnet_id,
        security_group_ids=(names.security_group_id, *plan.request.network.security_group_ids),
        lifecycle_uri=names.lifecycle_uri,
        entry_point=ENTRY_POINT,
        volume_key_arn=plan.request.storage.kms_key_arn,
        tags=(*tags(plan), FOR_THE_OPERATOR),
    )


def _system(plan: Plan) -> dict[str, Any]:
    """One node for the cluster's own pods and HyperPod's: HyperPod's training operator selects only HyperPod nodes.

    Job nodes may need hours of health checks, or may never come. Without the system node, DNS, certificates and
    operators would be Pending, and the stack would fail. Fargate runs no DaemonSet and provides no HyperPod node.
    """
    head = sizing.head_node(plan.place.nodes, plan.request.storage.head_node)
    return plain_group(eks.SYSTEM, head, 1, least=1)


def node_script(plan: Plan) -> str:
    """The script that runs on every node at its creation."""
    return render_template("hyperpod/on_create_eks.sh.j2", cluster=plan.cluster_name)


def chart_values(plan: Plan, facts: InstanceType) -> str:
    """The values for HyperPod's chart: device plugins for the devices of the jobs' nodes.

    Raises:
        ImpossibleError: with the current values template, nodes would not report their EFA interfaces.
    """
    instance_type = ml_name(facts.name)
    text = render_template(
        _VALUES,
        commit=chart_pins().commit,
        region=plan.place.region,
        instance_type=instance_type,
        nvidia=is_nvidia(facts),
        neuron=facts.neuron,
        efa=facts.efa_interfaces > 0,
    )
    lost = tuple(chart_findings(safe_yaml.loads(text), facts, where=f"templates/{_VALUES}"))
    if lost:
        raise ImpossibleError(f"nodes of {instance_type} would show no EFA", findings=lost)
    return text


def governance_text(plan: Plan) -> str | None:
    """The requests that set up task governance of a plan's cluster; None if its jobs wait in no queue."""
    queue = team_queue(plan.request.target.queue)
    if queue is None:
        return None
    return render_template(
        "hyperpod/governance.yaml.j2",
        name=cluster_name(plan),
        team=queue.team,
        instance_type=ml_name(plan.place.instance_type),
        count=plan.place.nodes,
        priorities=eks.PRIORITIES,
        tags=tags(plan),
    )


def namespaces_of(plan: Plan) -> tuple[str, ...]:
    """The namespaces whose jobs get the pods' role: Slipway's own, and the namespace of the team's queue."""
    queue = team_queue(plan.request.target.queue)
    return eks.NAMESPACES if queue is None else (*eks.NAMESPACES, queue.namespace)


class HyperPodEksFiles(PodFiles):
    """A HyperPod cluster with EKS, and jobs as pods."""

    def findings(self, plan: Plan, instances: Mapping[str, InstanceType]) -> tuple[Finding, ...]:
        """Why Slipway can create neither a HyperPod cluster with EKS nor a job for the plan; empty if it can."""
        if plan.place.target is not TargetKind.HYPERPOD_EKS:
            return (
                error("not-hyperpod-eks", "target.kind", f"{plan.place.target} is not a HyperPod cluster with EKS"),
            )
        problems = instance_findings(HyperPodEks(), plan, instances)
        if plan.place.instance_type not in instances:
            return problems
        if plan.request.target.cluster is None:
            problems = (*problems, *notify_findings(plan))
        return (
            problems if plan.request.workload.train is None else (*problems, *kubernetes_job.findings(plan, instances))
        )

    def cluster_files(
        self, plan: Plan, instances: Mapping[str, InstanceType], names: ClusterNames
    ) -> list[RenderedFile]:
        """The control plane, the nodes, their script, and the chart's values; no files for an existing cluster."""
        if plan.request.target.cluster is not None:
            return []
        nodes = nodes_text(plan, instances=instances, names=names)
        script = f"{LIFECYCLE_FOLDER}/{ENTRY_POINT}"
        governed = governance_text(plan)
        shared = [] if governed is None else [RenderedFile(path=GOVERNANCE_FILE, text=governed)]
        return [
            RenderedFile(path=CLUSTER_FILE, text=render_template("eks/cluster.yaml.j2", control_context(plan))),
            RenderedFile(path=NODES_FILE, text=nodes),
            RenderedFile(path=VALUES_FILE, text=chart_values(plan, instances[plan.place.instance_type])),
            *shared,
            RenderedFile(path=script, text=node_script(plan), executable=True),
        ]
