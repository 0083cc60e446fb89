"""The safety policies of a plan as a quote shows them, the ones that are off included."""

from launcher.model.durations import spoken
from launcher.model.enums import CheckpointMode
from launcher.model.idle import idle_minutes
from launcher.model.quote import Policy
from launcher.model.request import PlanRequest


def policies(request: PlanRequest, interval_s: float | None) -> tuple[Policy, ...]:
    """Every policy with its setting."""
    budget, rails, saves = request.budget, request.guardrails, request.checkpoint
    idle = idle_minutes(request)
    kept = saves.mode is not CheckpointMode.NONE
    every = f"every {spoken(interval_s)}, " if interval_s else ""
    return (
        _policy("checkpoints", f"{every}{saves.keep} kept, by {saves.mode.value}" if kept else None),
        _policy("budget", None if budget.max_usd is None else f"${budget.max_usd:f} on the high estimate"),
        _policy("hourly budget", None if budget.max_usd_per_hour is None else f"${budget.max_usd_per_hour:f} an hour"),
        _policy("stop at a sum", None if budget.stop_at_usd is None else f"${budget.stop_at_usd:f}, saved before"),
        _policy("TTL", None if rails.ttl_h is None else f"{rails.ttl_h:g} h"),
        _policy("idle stop", None if idle is None else f"{idle:g} min"),
        _policy("hung-job stop", f"{rails.hung_minutes:g} min without a step" if rails.hung_minutes else None),
        _policy("retries after a failure", str(request.run.retries) if request.run.retries else None),
        _policy("time limit", None if request.run.time_limit_h is None else f"{request.run.time_limit_h:g} h"),
        _policy("notifications", ", ".join(rails.notify) or None),
    )


def _policy(name: str, value: str | None) -> Policy:
    """One policy; no value means that it is off."""
    return Policy(name=name, value=value or "off", on=value is not None)
