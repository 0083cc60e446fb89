"""A plan as files: what `slipway render` writes, a deployment deploys and a submission submits."""

from collections.abc import Mapping

from launcher.model.bundle import Bundle, RenderedFile
from launcher.model.errors import ImpossibleError
from launcher.model.instance_type import InstanceType
from launcher.model.plan import Plan
from launcher.rendering.batch import JobSettings
from launcher.rendering.names import ClusterNames
from launcher.targets.files import files_of


def render(plan: Plan, *, instances: Mapping[str, InstanceType], names: ClusterNames, job: JobSettings) -> Bundle:
    """The files of a plan; nothing is executed.

    A plan for an existing cluster has no cluster configuration; a plan without a workload has no job.

    Raises:
        ImpossibleError: Slipway cannot write the plan as files, with all reasons.
    """
    written = files_of(plan.place.target)
    problems = (*written.findings(plan, instances), *written.job_findings(plan))
    if problems:
        raise ImpossibleError(f"{plan.name} cannot be rendered", findings=problems)
    files: list[RenderedFile] = []
    if plan.request.target.cluster is None:
        files.extend(written.cluster_files(plan, instances, names))
    files.extend(written.job_files(plan, instances, names, job))
    return Bundle(digest=plan.digest, files=tuple(files))
