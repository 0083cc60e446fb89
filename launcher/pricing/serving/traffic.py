"""Traffic over a day in words: requests of a month, and how they become instances."""

from launcher.model.endpoint import FILLED, rollout_of
from launcher.model.fleet import (
    AWAKE_H,
    DEPLOYMENT_H,
    DEPLOYMENTS_PER_MONTH,
    HOURS_PER_MONTH,
    SECONDS_PER_HOUR,
    Fleet,
    Stand,
)
from launcher.model.money import Assumption
from launcher.model.serving import ServingEstimate
from launcher.model.workload import HOURS_A_DAY, ServingWorkload


def requests_per_month(workload: ServingWorkload) -> float:
    """Requests in a month of 730 hours."""
    return sum(workload.hourly) / HOURS_A_DAY * SECONDS_PER_HOUR * HOURS_PER_MONTH


def rollout_words(workload: ServingWorkload, stand: Stand) -> str:
    """How a new version replaces the old."""
    return "pods one after the other" if stand.mode is None else rollout_of(workload, stand.mode).value


def fleet_lines(serve: ServingWorkload, told: ServingEstimate, load: Fleet, stand: Stand) -> tuple[Assumption, ...]:
    """How the traffic becomes instances."""
    peak = load.instances.most
    found = [
        Assumption(
            name="traffic",
            value=f"{requests_per_month(serve):,.0f}",
            unit="requests a month",
            source="workload.serve",
        ),
        Assumption(
            name="instances",
            value=f"{load.instances.mean:.3g} on average, {load.instances.least:.3g} to {peak}",
            unit="",
            source=f"hour by hour, each filled to {FILLED:.0%} of {told.requests_per_s:.3g} requests/s",
        ),
        Assumption(
            name="deployments",
            value=f"{DEPLOYMENTS_PER_MONTH:g} a month of {DEPLOYMENT_H:g} h",
            unit=rollout_words(serve, stand)
            + (": old and new version stand together" if stand.mode is not None else ""),
            source="assumption, not measured",
        ),
    ]
    if not serve.min_instances:
        found.append(
            Assumption(
                name="an instance that was woken stays for",
                value=f"{AWAKE_H:g}",
                unit=f"h, of {HOURS_PER_MONTH:g} h a month",
                source="assumption, not measured",
            )
        )
    return tuple(found)
