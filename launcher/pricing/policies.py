"""The safety policies of a plan as a quote shows them, the ones that are off included."""

from launcher.model.durations import spoken
from launcher.model.enums import CheckpointMode, TargetKind
from launcher.model.idle import idle_minutes, warm_minutes
from launcher.model.quote import Policy
from launcher.model.request import CheckpointPolicy, PlanRequest
from launcher.model.target import target_of

OF_THE_CLUSTER = "the cluster's own, not this plan's"
"""Of what a guard does, where the plan's jobs go to a cluster that is there: the plan makes none."""


def policies(request: PlanRequest, interval_s: float | None, retries: int, kind: TargetKind) -> tuple[Policy, ...]:
    """Every policy with its setting."""
    budget, rails, saves = request.budget, request.guardrails, request.checkpoint
    kept = saves.mode is not CheckpointMode.NONE
    every = f"every {spoken(interval_s)}, " if interval_s else ""
    return (
        _policy("checkpoints", f"{every}{_keeping(saves)}" if kept else None),
        _policy("budget", None if budget.max_usd is None else f"${budget.max_usd:f} on the high estimate"),
        _policy("hourly budget", None if budget.max_usd_per_hour is None else f"${budget.max_usd_per_hour:f} an hour"),
        _policy("budget stop", None if budget.stop_at_usd is None else f"${budget.stop_at_usd:f}, saved before"),
        *_of_the_nodes(request, kind),
        _policy("hung-job stop", f"{rails.hung_minutes:g} min without a step" if rails.hung_minutes else None),
        _policy("retries after a failure", str(retries) if retries else None),
        _policy("time limit", None if request.run.time_limit_h is None else f"{request.run.time_limit_h:g} h"),
        _policy("notifications", ", ".join(rails.notify) or None),
    )


def _keeping(policy: CheckpointPolicy) -> str:
    """Who keeps how many checkpoints, or where the trainer keeps its own."""
    return f"{policy.keep} kept, by {policy.mode.value}" if policy.own_uri is None else f"the trainer's, {policy.uri}"


def _of_the_nodes(request: PlanRequest, kind: TargetKind) -> tuple[Policy, Policy]:
    """What ends nodes: the guard of a cluster that the plan makes; of another one nothing is known here."""
    if request.target.cluster is not None or request.target.ssh_host is not None:
        ttl_of_it, idle_of_it = (Policy(name=name, value=OF_THE_CLUSTER, on=False) for name in ("TTL", "idle stop"))
        return ttl_of_it, idle_of_it
    ttl, idle = request.guardrails.ttl_h, idle_minutes(request)
    until = _policy("TTL", None if ttl is None else f"{ttl:g} h")
    if target_of(kind).per_job:
        warm = warm_minutes(request)
        return until, _policy("warm pool", f"{warm:g} min, billed in full" if warm else None)
    return (
        until,
        _policy("idle stop", None if idle is None else f"{idle:g} min"),
    )


def _policy(name: str, value: str | None) -> Policy:
    """One policy; no value means that it is off."""
    return Policy(name=name, value=value or "off", on=value is not None)
