"""What a target writes for a plan: the files of its cluster and of its jobs."""

from collections.abc import Mapping

from launcher.model.bundle import RenderedFile
from launcher.model.finding import Finding
from launcher.model.instance_type import InstanceType
from launcher.model.plan import Plan
from launcher.rendering import batch, kubernetes_job, slurm_job
from launcher.rendering.batch import JobSettings
from launcher.rendering.names import ClusterNames

Instances = Mapping[str, InstanceType]


class TargetFiles:
    """The files of a target's clusters and jobs; its jobs are Slurm's unless a subclass writes others."""

    def findings(self, plan: Plan, instances: Instances) -> tuple[Finding, ...]:
        """Why its cluster cannot be written for a plan; empty if it can."""
        raise NotImplementedError

    def cluster_files(self, plan: Plan, instances: Instances, names: ClusterNames) -> list[RenderedFile]:
        """The configuration of the cluster, and the set-up of its nodes."""
        raise NotImplementedError

    def job_findings(self, plan: Plan) -> tuple[Finding, ...]:
        """Why its job cannot be written for a plan; empty if it can."""
        return batch.findings(plan)

    def job_files(self, plan: Plan, instances: Instances, names: ClusterNames, job: JobSettings) -> list[RenderedFile]:
        """The files of a plan's job."""
        return slurm_job.job_files(plan, instances, names, job)


class PodFiles(TargetFiles):
    """The files of a target whose jobs are pods on Kubernetes."""

    def job_findings(self, plan: Plan) -> tuple[Finding, ...]:
        """Empty: the findings about the cluster include those about the job, which depend on the cluster's nodes."""
        return ()

    def job_files(self, plan: Plan, instances: Instances, names: ClusterNames, job: JobSettings) -> list[RenderedFile]:
        """The manifests of a plan's job."""
        return kubernetes_job.job_files(plan, instances, names, job)
