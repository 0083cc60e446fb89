"""A plan as files: what `slipway render` writes, a deployment deploys and a submission submits."""

from collections.abc import Mapping

from launcher.model.bundle import Bundle, RenderedFile
from launcher.model.enums import TargetKind
from launcher.model.errors import ImpossibleError
from launcher.model.instance_type import InstanceType
from launcher.model.plan import Plan
from launcher.rendering import batch, cluster, hyperpod
from launcher.rendering.batch import JobSettings, batch_context, batch_script, job_spec
from launcher.rendering.cluster import cluster_context, cluster_yaml
from launcher.rendering.image import image_files
from launcher.rendering.names import ClusterNames
from launcher.rendering.neuron import environment_script
from launcher.rendering.node import METRICS_SCRIPT, NODE_SCRIPT, is_measured, script_text
from launcher.rendering.preflight import COLLECTIVE, preflight_script

CLUSTER_FILE = "cluster.yaml"
NODE_FILE = "node.sh"
METRICS_FILE = "metrics.py"
PREFLIGHT_FILE = "preflight.sbatch"
COLLECTIVE_FILE = "preflight.py"
ENVIRONMENT_FILE = "environment.sh"
BATCH_FILE = "job.sbatch"
JOB_FILE = "job.json"
LIFECYCLE_FOLDER = "lifecycle"


def render(plan: Plan, *, instances: Mapping[str, InstanceType], names: ClusterNames, job: JobSettings) -> Bundle:
    """The files of a plan; nothing is executed.

    A plan for a cluster that exists has no cluster configuration, one without a workload no job.

    Args:
        plan: a plan for ParallelCluster or for HyperPod with Slurm.
        instances: the catalog's types, by name.
        names: what the files refer to.
        job: the submission.

    Raises:
        ImpossibleError: the plan cannot be written as files, with all reasons.
    """
    target = hyperpod if _is_hyperpod(plan) else cluster
    found = (*target.findings(plan, instances), *batch.findings(plan))
    if found:
        raise ImpossibleError(f"{plan.name} cannot be rendered", findings=found)
    files: list[RenderedFile] = []
    if plan.request.target.cluster is None:
        files.extend(_cluster_files(plan, instances, names))
    files.extend(_preflight_files(plan, instances))
    if plan.request.workload.train is not None:
        script = batch_script(batch_context(plan, instances=instances, names=names))
        files.append(RenderedFile(path=BATCH_FILE, text=script, executable=True))
        files.append(RenderedFile(path=JOB_FILE, text=job_spec(plan, names=names, job=job).to_json()))
    return Bundle(digest=plan.digest, files=tuple(files))


def _cluster_files(plan: Plan, instances: Mapping[str, InstanceType], names: ClusterNames) -> list[RenderedFile]:
    """The cluster's configuration, and what its nodes are set up with."""
    if _is_hyperpod(plan):
        return _hyperpod_files(plan, instances, names)
    context = cluster_context(plan, instances=instances, names=names)
    files = [RenderedFile(path=CLUSTER_FILE, text=cluster_yaml(context))]
    if any(queue.node_setup for queue in context.queues):
        files.append(RenderedFile(path=NODE_FILE, text=script_text(NODE_SCRIPT), executable=True))
    if any(is_measured(instances[queue.instance_type]) for queue in context.queues):
        files.append(RenderedFile(path=METRICS_FILE, text=script_text(METRICS_SCRIPT)))
    files.extend(RenderedFile(path=path, text=text) for path, text in image_files(plan, instances).items())
    return files


def _is_hyperpod(plan: Plan) -> bool:
    return plan.place.target is TargetKind.HYPERPOD_SLURM


def _hyperpod_files(plan: Plan, instances: Mapping[str, InstanceType], names: ClusterNames) -> list[RenderedFile]:
    """The request that makes the cluster, and the folder that HyperPod fetches for every machine."""
    text = hyperpod.cluster_text(hyperpod.hyperpod_context(plan, instances=instances, names=names))
    scripts = hyperpod.lifecycle_files(plan, instances).items()
    files = [RenderedFile(path=CLUSTER_FILE, text=text)]
    files += [RenderedFile(path=f"{LIFECYCLE_FOLDER}/{name}", text=each, executable=True) for name, each in scripts]
    return files


def _preflight_files(plan: Plan, instances: Mapping[str, InstanceType]) -> list[RenderedFile]:
    """What people run before the job: the Python environment of Neuron, and a collective over all chips."""
    facts = instances[plan.place.instance_type]
    files = []
    environment = environment_script(facts, plan.request.target.os)
    if environment is not None:
        files.append(RenderedFile(path=ENVIRONMENT_FILE, text=environment, executable=True))
    script = preflight_script(plan, instances)
    if script is not None:
        files.append(RenderedFile(path=PREFLIGHT_FILE, text=script, executable=True))
        if not facts.neuron:
            files.append(RenderedFile(path=COLLECTIVE_FILE, text=script_text(COLLECTIVE)))
    return files
