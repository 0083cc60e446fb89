"""How long nodes stay without a job."""

from launcher.model.request import PlanRequest

OWN_CLUSTER_MINUTES = 5.0
"""Of a cluster that is one job's: long enough for a job that Slurm puts back into the queue to find its nodes."""
SHARED_MINUTES = 60.0
"""Of everything else."""
NEVER_MINUTES = 525_600
"""A year, for what takes no "never": ParallelCluster's ScaledownIdletime is a number of minutes."""


def idle_minutes(request: PlanRequest) -> float | None:
    """Minutes without work after which nodes stop, or people are told of an endpoint; None: never.

    The plan's own number, where 0 is never; `auto` is short where the cluster is the job's own.
    """
    own = request.guardrails.idle_minutes
    if own is not None:
        return own or None
    job = request.workload.train is not None and request.target.cluster is None
    return OWN_CLUSTER_MINUTES if job else SHARED_MINUTES


def warm_minutes(request: PlanRequest) -> float:
    """Minutes that a training job's machines stay as a warm pool, billed in full; 0 unless the plan asks for it."""
    return request.guardrails.idle_minutes or 0.0
