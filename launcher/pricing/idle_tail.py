"""The idle tail: the cost of nodes between the end of the job and their stop.

ParallelCluster stops idle nodes by Slurm's own timer. On HyperPod the guard deletes idle workers; the guard polls every
few minutes and waits longer than Slurm would. A cluster's time to live ends every tail. Prepaid capacity has no tail:
complete offerings are paid to their end regardless of usage. If the user's own runs measured the tail
(`planning.learned`), the measured value counts.
"""

from launcher.model.enums import PREPAID, PurchaseOption, TargetKind
from launcher.model.idle import idle_minutes, warm_minutes
from launcher.model.learned import Learned
from launcher.model.money import Assumption
from launcher.model.monitoring import GUARD_AFTER_SLURM_MINUTES, GUARD_EVERY_MINUTES
from launcher.model.plan import Place
from launcher.model.request import PlanRequest
from launcher.targets.registry import target_of

NEVER_H = 24.0
"""Assumed hours that nodes stay if nothing stops them: the user checks once a day. Not measured."""


def tail_hours(
    place: Place, request: PlanRequest, busy_h: float, *, slow: bool = False, learned: Learned | None = None
) -> float:
    """Billed hours that the nodes stay after a job.

    Args:
        place: the place; its purchase option is ignored.
        request: the plan's guardrails and workload.
        busy_h: hours from the first node's boot to the job's end.
        slow: the worst case: the guard polled just before the idle time ended.
        learned: the tail of the user's own runs, for both cases; None if no run measured it.
    """
    tail = idle_hours(place.target, request, slow=slow) if learned is None else learned.mid
    ttl_h = request.guardrails.ttl_h
    return tail if ttl_h is None else min(tail, max(0.0, ttl_h - busy_h))


def idle_hours(kind: TargetKind, request: PlanRequest, *, slow: bool = False) -> float:
    """Hours until idle nodes of a target are stopped, according to the plan's guardrails."""
    if target_of(kind).per_job:
        return warm_minutes(request) / 60
    minutes = idle_minutes(request)
    if minutes is None or _time_alone(kind, request):
        return NEVER_H
    if _guarded_alone(kind, request):
        delay = GUARD_EVERY_MINUTES if slow else GUARD_EVERY_MINUTES / 2
        return (minutes + GUARD_AFTER_SLURM_MINUTES + delay) / 60
    return minutes / 60


def never_stops(kind: TargetKind, request: PlanRequest) -> bool:
    """Whether nothing ends idle nodes: no idle stop, no time to live."""
    return request.guardrails.ttl_h is None and idle_hours(kind, request) == NEVER_H


def learnable_hours(kind: TargetKind, option: PurchaseOption, request: PlanRequest) -> float | None:
    """The idle hours if a run can measure them; None otherwise.

    A run cannot measure them if nothing stops idle nodes, if nodes are prepaid, or if others use the cluster's nodes.
    """
    prepaid = option in PREPAID
    if prepaid or target_of(kind).per_job or request.target.cluster is not None or request.workload.train is None:
        return None
    hours = idle_hours(kind, request)
    return None if hours == NEVER_H else hours


def _time_alone(kind: TargetKind, request: PlanRequest) -> bool:
    """Whether nothing detects idle nodes in a cluster that the plan creates."""
    guard = target_of(kind).guard
    return guard is not None and not guard.idle and request.target.cluster is None


def _guarded_alone(kind: TargetKind, request: PlanRequest) -> bool:
    """Whether only the guard stops idle nodes of a cluster that the plan creates."""
    guard = target_of(kind).guard
    return guard is not None and guard.alone and request.target.cluster is None


def tail_line(place: Place, request: PlanRequest, hours: float, learned: Learned | None = None) -> Assumption:
    """The idle tail as a line of the quote."""
    name = "nodes stay after the job, idle and billed, for"
    until = "; at most until guardrails.ttl_h" if request.guardrails.ttl_h is not None else ""
    if learned is not None:
        span = f"{learned.low * 60:.3g} to {learned.high * 60:.3g} minutes"
        return Assumption(
            name=name,
            value=f"{hours * 60:.3g}",
            unit="minutes",
            source=f"{learned.source}; {span}{until}",
            steps=learned.steps,
        )
    minutes = idle_minutes(request)
    source = "guardrails.idle_minutes: auto" if request.guardrails.idle_minutes is None else "guardrails.idle_minutes"
    if target_of(place.target).per_job:
        stays, none = (
            ("the warm pool", "no warm pool") if target_of(place.target).is_managed else ("the tail", "no tail")
        )
        source += f": {stays}, billed in full" if hours else f": {none}, the instances end with the job"
    elif _time_alone(place.target, request):
        source = f"{target_of(place.target).title} does not detect idle nodes; assumption: a user checks once a day"
    elif minutes is None:
        source += " 0: nothing stops them, and assumes that you check once a day"
    elif _guarded_alone(place.target, request):
        source += f", the guard's {GUARD_AFTER_SLURM_MINUTES} minutes more and half of its {GUARD_EVERY_MINUTES}"
    return Assumption(name=name, value=f"{hours * 60:g}", unit="minutes", source=source + until)
