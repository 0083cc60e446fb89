"""The files of a Slurm job: the user's setup, its batch script, and its agent's settings."""

from collections.abc import Mapping

from launcher.model.bundle import RenderedFile
from launcher.model.instance_type import InstanceType
from launcher.model.plan import Plan
from launcher.model.slurm_step import STEP_DEVICES
from launcher.rendering.batch import JobSettings, batch_script, job_spec
from launcher.rendering.cluster import queue_name
from launcher.rendering.engine import render_template
from launcher.rendering.names import ClusterNames
from launcher.rendering.neuron import environment_script
from launcher.rendering.node import efa_check, script_text

COLLECTIVE = "templates/slurm/preflight.py"
"""The collective test on GPUs; Neuron's tools include their own."""
LINE_RATE_SHARE = 0.25
"""Of the line rate; a slower collective across nodes did not use EFA: this project's choice. Without EFA the single
ENA interface carries a few per cent of it, and published all-reduces with EFA reach at least half."""
PREFLIGHT_FILE = "preflight.sbatch"
COLLECTIVE_FILE = "preflight.py"
ENVIRONMENT_FILE = "environment.sh"
BATCH_FILE = "job.sbatch"
JOB_FILE = "job.json"


def preflight_script(plan: Plan, instances: Mapping[str, InstanceType]) -> str | None:
    """The batch script of a plan's preflight; None if no test is known for its type."""
    facts = instances[plan.place.instance_type]
    workers = facts.training_workers
    if workers == 0:
        return None
    across_nodes = plan.place.nodes > 1 and facts.efa_interfaces > 0
    return render_template(
        "slurm/preflight.sbatch.j2",
        plan=plan,
        facts=facts,
        job_name=f"{plan.name}-preflight",
        partition=queue_name(facts.name),
        family="neuron" if facts.neuron else "nvidia",
        efa_check=efa_check(),
        step_devices=STEP_DEVICES,
        workers_per_node=workers,
        minimum_gb_s=round(facts.network_gbps / 8 * LINE_RATE_SHARE) if across_nodes else 0,
    )


def job_files(
    plan: Plan, instances: Mapping[str, InstanceType], names: ClusterNames, job: JobSettings
) -> list[RenderedFile]:
    """The preflight, and the job if the plan has one."""
    files = _preflight_files(plan, instances)
    if plan.request.workload.train is not None:
        script = batch_script(plan, facts=instances[plan.place.instance_type], names=names, job=job)
        files.append(RenderedFile(path=BATCH_FILE, text=script, executable=True))
        files.append(RenderedFile(path=JOB_FILE, text=job_spec(plan, names=names, job=job).to_json()))
    return files


def _preflight_files(plan: Plan, instances: Mapping[str, InstanceType]) -> list[RenderedFile]:
    """The files to run before the job: Neuron's Python environment, and a collective test over all chips."""
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
