"""How long nodes stay without a job."""

from launcher.model.request import PlanRequest

OWN_CLUSTER_MINUTES = 5.0
"""Idle minutes of a cluster for one job: long enough for a job that Slurm requeues to find its nodes."""
SHARED_MINUTES = 60.0
"""Idle minutes of all other deployments."""
NEVER_MINUTES = 525_600
"""A year, for settings without "never": ParallelCluster's ScaledownIdletime is a number of minutes."""


def idle_minutes(request: PlanRequest) -> float | None:
    """Idle minutes after which nodes stop, or users are notified of an idle endpoint; None: never.

    The plan's own number, where 0 means never; `auto` is short if the cluster belongs to the job.
    """
    minutes = request.guardrails.idle_minutes
    if minutes is not None:
        return minutes or None
    job = request.workload.train is not None and request.target.cluster is None
    return OWN_CLUSTER_MINUTES if job else SHARED_MINUTES


def warm_minutes(request: PlanRequest) -> float:
    """Minutes for which a training job's warm pool stays, billed in full; 0 unless the plan requests a warm pool."""
    return request.guardrails.idle_minutes or 0.0
