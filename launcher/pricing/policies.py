"""The safety policies of a quote with their settings, including disabled ones."""

from collections.abc import Mapping

from launcher.model.enums import CheckpointMode, TargetKind
from launcher.model.idle import idle_minutes, warm_minutes
from launcher.model.quote import Policy
from launcher.model.request import Budget, CheckpointPolicy, PlanRequest
from launcher.model.units import duration_text
from launcher.targets.registry import target_of

OF_THE_CLUSTER = "the cluster's own, not this plan's"
"""The setting of guard policies if the plan's jobs go to an existing cluster: the plan creates no guard."""


def policies(request: PlanRequest, interval_s: float | None, retries: int, kind: TargetKind) -> tuple[Policy, ...]:
    """Every policy with its setting."""
    rails, saves, stop_usd = request.guardrails, request.checkpoint, request.budget.stop_at_usd
    has_checkpoints = saves.mode is not CheckpointMode.NONE
    every = f"every {duration_text(interval_s)}, " if interval_s else ""
    before = {
        "checkpoints": f"{every}{_keeping(saves)}" if has_checkpoints else None,
        **budget_settings(request.budget, "the high estimate"),
        "budget stop": None if stop_usd is None else f"${stop_usd:,f}, saved before",
    }
    after = {
        "hung-job stop": _hung_stop(request),
        "retries after a failure": str(retries) if retries else None,
        "time limit": None if request.run.time_limit_h is None else f"{request.run.time_limit_h:g} h",
        "notifications": ", ".join(rails.notify) or None,
    }
    return (*policies_of(before), *_node_policies(request, kind), *policies_of(after))


def budget_settings(budget: Budget, estimate: str) -> dict[str, str | None]:
    """The limits of a budget by their policies' names; `estimate` names the estimate they are compared with."""
    usd, hourly_usd = budget.max_usd, budget.max_usd_per_hour
    return {
        "budget": None if usd is None else f"${usd:,f} on {estimate}",
        "hourly budget": None if hourly_usd is None else f"${hourly_usd:,f} an hour",
    }


def policies_of(settings: Mapping[str, str | None]) -> tuple[Policy, ...]:
    """Policies with their settings; None means off."""
    return tuple(Policy(name=name, value=value or "off", on=value is not None) for name, value in settings.items())


def _keeping(policy: CheckpointPolicy) -> str:
    return f"{policy.keep} kept, by {policy.mode.value}" if policy.own_uri is None else f"the trainer's, {policy.uri}"


def _hung_stop(request: PlanRequest) -> str | None:
    """The agent watches steps, and the guard of a new cluster the activity of all nodes (docs/clusters.md)."""
    minutes = request.guardrails.hung_minutes
    if not minutes:
        return None
    more = ", if the trainer reports steps" if _is_existing(request) else ", or without activity"
    return f"{minutes:g} min without a step{more}"


def _is_existing(request: PlanRequest) -> bool:
    return request.target.cluster is not None or request.target.ssh_host is not None


def _node_policies(request: PlanRequest, kind: TargetKind) -> tuple[Policy, ...]:
    """The policies that end nodes: the guard of a new cluster; for an existing cluster they are unknown."""
    if _is_existing(request):
        return tuple(Policy(name=name, value=OF_THE_CLUSTER, on=False) for name in ("TTL", "idle stop"))
    ttl, idle, warm = request.guardrails.ttl_h, idle_minutes(request), warm_minutes(request)
    settings = {"TTL": None if ttl is None else f"{ttl:g} h"}
    if target_of(kind).per_job:
        settings["warm pool" if target_of(kind).is_managed else "idle tail"] = (
            f"{warm:g} min, billed in full" if warm else None
        )
    else:
        settings["idle stop"] = None if idle is None else f"{idle:g} min"
    return policies_of(settings)
