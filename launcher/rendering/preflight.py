"""A job that people run before a long one: an all-reduce over every chip of every node."""

from collections.abc import Mapping

from launcher.model.instance_type import InstanceType
from launcher.model.plan import Plan
from launcher.rendering.batch import workers_per_node
from launcher.rendering.cluster import queue_name
from launcher.rendering.engine import rendered
from launcher.rendering.node import efa_check

COLLECTIVE = "templates/slurm/preflight.py"
"""What the job runs on GPUs; Neuron's tools bring their own."""
LINE_RATE_SHARE = 0.25
"""Of the line rate, below which a collective across nodes has not used EFA: this project's choice. Without EFA the one
ENA interface carries a few per cent of it, and published all-reduces with EFA reach half and more."""


def preflight_script(plan: Plan, instances: Mapping[str, InstanceType]) -> str | None:
    """The batch script of a plan's preflight; None where nothing is known to measure its type with."""
    facts = instances[plan.place.instance_type]
    workers = workers_per_node(facts)
    if workers == 0:
        return None
    across_nodes = plan.place.nodes > 1 and facts.efa_interfaces > 0
    return rendered(
        "slurm/preflight.sbatch.j2",
        plan=plan,
        facts=facts,
        job_name=f"{plan.name}-preflight",
        partition=queue_name(facts.name),
        family="neuron" if facts.neuron else "nvidia",
        efa_check=efa_check(),
        workers_per_node=workers,
        minimum_gb_s=round(facts.network_gbps / 8 * LINE_RATE_SHARE) if across_nodes else 0,
    )
