"""A cluster's dashboard: nodes, cost, accelerators, head node."""

from collections.abc import Mapping, Sequence
from typing import Any

from constructs import Construct

from infra.parts.limits import Limits
from infra.parts.widgets import add_dashboard, graph, spend, text
from launcher.model.eks import WORKERS
from launcher.model.hyperpod import JOBS_METRIC
from launcher.model.monitoring import GUARD_METRICS, NAMESPACE, NODE_METRICS, nodes_namespace
from launcher.model.plan import Plan
from launcher.model.target import SLURM
from launcher.model.training_job import LOG_GROUP
from launcher.rendering.cluster import cluster_name
from launcher.targets.ec2.files import log_group
from launcher.targets.registry import target_of

_ACCELERATORS = (
    "Utilisation of accelerators, %, by node",
    "Memory of accelerators in use, bytes, by node",
    "Uncorrectable memory errors, by node",
)
"""Titles, in the order of NODE_METRICS."""


def cluster_dashboard(
    scope: Construct, id_: str, *, plan: Plan, limits: Limits, target_widgets: Sequence[Mapping[str, Any]]
) -> str:
    """Add a cluster's dashboard; return its URL. `target_widgets` are the target's, as `parallelcluster_widgets`."""
    region, cluster = plan.place.region, plan.cluster_name
    nodes = [NAMESPACE, GUARD_METRICS[0], "Cluster", cluster]
    widgets = [graph("Running nodes", region, [nodes], stat="Maximum"), *spend(plan, limits)]
    if target_of(plan.place.target).scheduler == SLURM:
        widgets += [
            graph(title, region, [[_by_node(metric, cluster)]])
            for metric, title in zip(NODE_METRICS, _ACCELERATORS, strict=True)
        ]
    return add_dashboard(scope, id_, name=cluster_name(plan), region=region, widgets=[*widgets, *target_widgets])


def parallelcluster_widgets(plan: Plan, connect: str, head_node: str) -> list[dict[str, Any]]:
    """The head node of a ParallelCluster, by its instance id, and hints for further inspection."""
    region, name = plan.place.region, cluster_name(plan)
    lines = (
        f"A shell on the head node: `{connect}`",
        f"Logs of scheduler, jobs and nodes: the log group that begins with `/aws/parallelcluster/{name}-`",
        f"The fleet: `pcluster describe-compute-fleet --region {region} --cluster-name {name}`",
    )
    cpu = graph("CPU of the head node, %", region, [["AWS/EC2", "CPUUtilization", "InstanceId", head_node]])
    return [cpu, text(plan, lines)]


def hyperpod_widgets(plan: Plan, cluster_id: str, connect: str) -> list[dict[str, Any]]:
    """The queue of a HyperPod cluster, as its controller reports it, and hints for further inspection."""
    region, name = plan.place.region, cluster_name(plan)
    lines = (
        f"A shell on the controller: `{connect}`",
        f"Logs of scripts and nodes: the log group `/aws/sagemaker/Clusters/{name}/{cluster_id}`",
        f"The instances: `aws sagemaker list-cluster-nodes --region {region} --cluster-name {name}`",
    )
    jobs = [nodes_namespace(plan.cluster_name), JOBS_METRIC, "Cluster", plan.cluster_name]
    return [graph("Jobs in the queue", region, [jobs], stat="Maximum"), text(plan, lines)]


def eks_widgets(plan: Plan) -> list[dict[str, Any]]:
    """Hints for further inspection of an EKS cluster."""
    region, name = plan.place.region, cluster_name(plan)
    lines = (
        f"Jobs and pods: `slipway status {plan.name}`",
        f"Logs of the control plane: the log group `/aws/eks/{name}/cluster`",
        f"The nodes: `aws eks describe-nodegroup --region {region} --cluster-name {name} --nodegroup-name {WORKERS}`",
    )
    return [text(plan, lines)]


def hyperpod_eks_widgets(plan: Plan, cluster_id: str) -> list[dict[str, Any]]:
    """Hints for further inspection of a HyperPod cluster with EKS."""
    region, name = plan.place.region, cluster_name(plan)
    lines = (
        f"Jobs and pods: `slipway status {plan.name}`",
        f"Logs of the control plane: the log group `/aws/eks/{name}/cluster`",
        f"Logs of scripts and nodes: the log group `/aws/sagemaker/Clusters/{name}/{cluster_id}`",
        f"Why nodes do not start: `aws sagemaker list-cluster-events --region {region} --cluster-name {name}`",
    )
    return [text(plan, lines)]


def training_job_widgets(plan: Plan) -> list[dict[str, Any]]:
    """Hints for further inspection of training jobs."""
    region = plan.place.region
    lines = (
        f"The job: `slipway status {plan.name}`",
        f"Logs of its nodes: the log group `{LOG_GROUP}`",
        f"All of them: `aws sagemaker list-training-jobs --region {region} --name-contains {plan.name}`",
    )
    return [text(plan, lines)]


def instance_widgets(plan: Plan) -> list[dict[str, Any]]:
    """Hints for further inspection of a job's instances."""
    group = f"--region {plan.place.region} --auto-scaling-group-name {cluster_name(plan)}"
    lines = (
        f"The job: `slipway status {plan.name}`",
        f"Logs of its instances from their first line: the log group `{log_group(plan)}`",
        f"Why instances do not start: `aws autoscaling describe-scaling-activities {group}`",
    )
    return [text(plan, lines)]


def pcs_widgets(plan: Plan, connect: str) -> list[dict[str, Any]]:
    """Hints for further inspection of a PCS cluster."""
    region, name = plan.place.region, cluster_name(plan)
    lines = (
        f"A shell on the login node: `{connect}`",
        f"Logs of Slurm's controller: the log group `/aws/vendedlogs/pcs/cluster/PCS_SCHEDULER_LOGS/{name}`",
        f"Why nodes did not come: the log group `/aws/vendedlogs/pcs/cluster/PCS_SCALING_LOGS/{name}`",
        f"The node groups: `aws pcs list-compute-node-groups --region {region} --cluster-identifier {name}`",
    )
    return [text(plan, lines)]


def _by_node(metric: str, cluster: str) -> dict[str, str]:
    """A search expression for one metric of every node of a cluster, because node ids are not known in advance."""
    query = f'{{{nodes_namespace(cluster)},Cluster,InstanceId}} MetricName="{metric}" Cluster="{cluster}"'
    return {"expression": f"SEARCH('{query}', 'Average', 300)", "id": "e1"}
