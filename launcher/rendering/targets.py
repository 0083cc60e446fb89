"""The renderer of a training target, found by the target's kind."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

from launcher.model.bundle import RenderedFile
from launcher.model.enums import TargetKind
from launcher.model.finding import Finding
from launcher.model.instance_type import InstanceType
from launcher.model.plan import Plan
from launcher.rendering import batch, slurm_job
from launcher.rendering.batch import JobSettings
from launcher.rendering.names import ClusterNames
from launcher.targets.load import part

Instances = Mapping[str, InstanceType]


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """The functions that write a target's files.

    `findings` is why no cluster can be written for a plan. `cluster_files` is its configuration and the set-up of its
    nodes. `job_findings` and `job_files` are the same for the job, a Slurm job unless the target defines another.
    """

    findings: Callable[[Plan, Instances], tuple[Finding, ...]]
    cluster_files: Callable[[Plan, Instances, ClusterNames], list[RenderedFile]]
    job_findings: Callable[[Plan], tuple[Finding, ...]] = batch.findings
    job_files: Callable[[Plan, Instances, ClusterNames, JobSettings], list[RenderedFile]] = slurm_job.job_files


@cache
def writer_of(kind: TargetKind) -> Writer:
    """The writer of a training target."""
    return part(kind, "render", Writer)
