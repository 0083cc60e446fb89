"""A plan as files: what `slipway render` writes, a deployment deploys and a submission submits."""

from collections.abc import Mapping

from launcher.model.bundle import Bundle, RenderedFile
from launcher.model.errors import ImpossibleError
from launcher.model.instance_type import InstanceType
from launcher.model.plan import Plan
from launcher.rendering import batch, cluster
from launcher.rendering.batch import JobSettings, batch_context, batch_script, job_spec
from launcher.rendering.cluster import cluster_context, cluster_yaml
from launcher.rendering.names import ClusterNames
from launcher.rendering.node import node_script

CLUSTER_FILE = "cluster.yaml"
NODE_FILE = "node.sh"
BATCH_FILE = "job.sbatch"
JOB_FILE = "job.json"


def render(plan: Plan, *, instances: Mapping[str, InstanceType], names: ClusterNames, job: JobSettings) -> Bundle:
    """The files of a plan; nothing is executed.

    A plan for a cluster that exists has no cluster configuration, one without a workload no job.

    Args:
        plan: a plan for ParallelCluster.
        instances: the catalog's types, by name.
        names: what the files refer to.
        job: the submission.

    Raises:
        ImpossibleError: the plan cannot be written as files, with all reasons.
    """
    found = (*cluster.findings(plan, instances), *batch.findings(plan))
    if found:
        raise ImpossibleError(f"{plan.name} cannot be rendered", findings=found)
    files: list[RenderedFile] = []
    if plan.request.target.cluster is None:
        files.extend(_cluster_files(plan, instances, names))
    if plan.request.workload.train is not None:
        script = batch_script(batch_context(plan, instances=instances, names=names))
        files.append(RenderedFile(path=BATCH_FILE, text=script, executable=True))
        files.append(RenderedFile(path=JOB_FILE, text=job_spec(plan, names=names, job=job).to_json()))
    return Bundle(digest=plan.digest, files=tuple(files))


def _cluster_files(plan: Plan, instances: Mapping[str, InstanceType], names: ClusterNames) -> list[RenderedFile]:
    """The cluster's configuration, and its nodes' set-up script when they need one."""
    context = cluster_context(plan, instances=instances, names=names)
    files = [RenderedFile(path=CLUSTER_FILE, text=cluster_yaml(context))]
    if any(queue.node_setup for queue in context.queues):
        files.append(RenderedFile(path=NODE_FILE, text=node_script().read_text(encoding="utf-8"), executable=True))
    return files
