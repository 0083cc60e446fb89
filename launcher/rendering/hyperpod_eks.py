"""Jobs for a HyperPod cluster with EKS: the cluster exists, so that the job's files are all there is to write."""

from collections.abc import Mapping

from launcher.model.bundle import RenderedFile
from launcher.model.enums import TargetKind
from launcher.model.finding import Finding, error
from launcher.model.instance_type import InstanceType
from launcher.model.plan import Plan
from launcher.planning.hyperpod_eks import refusals
from launcher.rendering import kubernetes_job
from launcher.rendering.hyperpod import machine_findings
from launcher.rendering.names import ClusterNames


def findings(plan: Plan, instances: Mapping[str, InstanceType]) -> tuple[Finding, ...]:
    """Why a plan makes no job for HyperPod with EKS; empty when it does."""
    if plan.place.target is not TargetKind.HYPERPOD_EKS:
        return (error("not-hyperpod-eks", "target.kind", f"{plan.place.target} is no HyperPod cluster with EKS"),)
    found = machine_findings(plan, instances, refusals)
    if plan.place.instance_type not in instances or plan.request.workload.train is None:
        return found
    return (*found, *kubernetes_job.findings(plan, instances))


def cluster_files(_plan: Plan, _instances: Mapping[str, InstanceType], _names: ClusterNames) -> list[RenderedFile]:
    """Nothing: a plan that names no cluster is refused before."""
    return []
