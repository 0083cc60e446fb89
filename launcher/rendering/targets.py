"""What writes the files of each target that trains, by the target's kind."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from launcher.model.bundle import RenderedFile
from launcher.model.enums import TargetKind
from launcher.model.finding import Finding
from launcher.model.instance_type import InstanceType
from launcher.model.plan import Plan
from launcher.rendering import batch, cluster, eks, hyperpod, hyperpod_eks, kubernetes_job, parallelcluster, slurm_job
from launcher.rendering.batch import JobSettings
from launcher.rendering.names import ClusterNames

Instances = Mapping[str, InstanceType]


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """What writes a target's files.

    `findings` is why no cluster can be written for a plan, `cluster_files` its configuration and what its nodes are set
    up with; `job_findings` and `job_files` are the same of the job, which Slurm takes unless the target says otherwise.
    """

    findings: Callable[[Plan, Instances], tuple[Finding, ...]]
    cluster_files: Callable[[Plan, Instances, ClusterNames], list[RenderedFile]]
    job_findings: Callable[[Plan], tuple[Finding, ...]] = batch.findings
    job_files: Callable[[Plan, Instances, ClusterNames, JobSettings], list[RenderedFile]] = slurm_job.job_files


WRITERS: Mapping[TargetKind, Writer] = {
    TargetKind.PARALLELCLUSTER: Writer(findings=cluster.findings, cluster_files=parallelcluster.cluster_files),
    TargetKind.HYPERPOD_SLURM: Writer(findings=hyperpod.findings, cluster_files=hyperpod.cluster_files),
    TargetKind.EKS: Writer(
        findings=eks.findings,
        cluster_files=eks.cluster_files,
        job_findings=kubernetes_job.no_findings,
        job_files=kubernetes_job.job_files,
    ),
    TargetKind.HYPERPOD_EKS: Writer(
        findings=hyperpod_eks.findings,
        cluster_files=hyperpod_eks.cluster_files,
        job_findings=kubernetes_job.no_findings,
        job_files=kubernetes_job.job_files,
    ),
}
"""The writer of every target that trains."""
