"""Traffic over a day, and the instances that an autoscaler keeps for it, hour by hour."""

import math
from typing import NamedTuple

from launcher.model.enums import Rollout
from launcher.model.money import Assumption
from launcher.model.serving import Instances, ServingEstimate
from launcher.model.workload import HOURS_A_DAY, ServingWorkload

HOURS_PER_MONTH = 730.0
"""AWS's own month: 8,760 hours over 12."""
SECONDS_PER_HOUR = 3600.0
TARGET = 0.7
"""Share of an instance's requests that the autoscaler fills before it adds another: between the 0.6 and 0.8 of the
concurrency that the serving notes recommend; room for bursts and for the minutes an instance takes to start."""
AWAKE_H = 0.5
"""Hours an instance stays up for one request that woke it: 20 minutes to start and load, 10 of cooldown; assumed."""
DEPLOYMENTS_PER_MONTH = 2.0
DEPLOYMENT_H = 0.75
"""Hours that both versions stand: half an hour to serve, as Hugging Face reports for 70 B, and 15 minutes of bake."""
ROLLING_SHARE = 0.25
"""Of the instances that a rolling deployment replaces at once; SageMaker takes 5 to 50 %."""


class Fleet(NamedTuple):
    """What an endpoint runs: instances over the day, and instance-hours a month.

    `used_hours` is what the requests would take of full instances; `deployment_hours` what new versions add.
    """

    instances: Instances
    hours: float
    used_hours: float
    deployment_hours: float


def requests_per_month(workload: ServingWorkload) -> float:
    """Requests in a month of 730 hours."""
    return sum(workload.hourly) / HOURS_A_DAY * SECONDS_PER_HOUR * HOURS_PER_MONTH


def fleet(workload: ServingWorkload, requests_per_s: float) -> Fleet:
    """The instances for a load.

    Every hour has as many as its requests fill to TARGET, and never fewer than `min_instances`, nor than one a zone
    where any is always there. With a minimum of 0 an hour without enough requests to keep one instance up is paid for
    by the share of time that a request was there within AWAKE_H before: 1 - exp(-requests x AWAKE_H / hour).

    Args:
        workload: traffic, minimum, zones and the way of deploying.
        requests_per_s: what one instance serves when it is full, above 0.
    """
    floor = max(workload.min_instances, workload.zones) if workload.min_instances else 0
    load = workload.hourly
    counts = [max(floor, _needed(each, requests_per_s, scales_to_zero=not floor)) for each in load]
    most = math.ceil(max(counts))
    mean = sum(counts) / HOURS_A_DAY
    return Fleet(
        instances=Instances(least=min(counts), mean=mean, most=most),
        hours=mean * HOURS_PER_MONTH,
        used_hours=sum(load) / HOURS_A_DAY / requests_per_s * HOURS_PER_MONTH,
        deployment_hours=_extra(workload, max(1, most)) * DEPLOYMENT_H * DEPLOYMENTS_PER_MONTH if most else 0.0,
    )


def _needed(per_s: float, full: float, *, scales_to_zero: bool) -> float:
    """Instances in an hour; a fraction where the only one sleeps for a part of it."""
    if per_s <= 0:
        return 0.0
    whole = math.ceil(per_s / (full * TARGET) - 1e-9)
    if whole > 1 or not scales_to_zero:
        return float(max(1, whole))
    return -math.expm1(-per_s * SECONDS_PER_HOUR * AWAKE_H)


def rollout(workload: ServingWorkload, most: int) -> Rollout:
    """How a new version replaces the old: with one instance both stand side by side, with more they roll."""
    if workload.deployment is not Rollout.AUTO:
        return workload.deployment
    return Rollout.ALL_AT_ONCE if most == 1 else Rollout.ROLLING


def _extra(workload: ServingWorkload, most: int) -> int:
    """Instances beside the running ones while a new version is deployed."""
    if rollout(workload, most) is Rollout.ROLLING:
        return math.ceil(ROLLING_SHARE * most)
    return most


def fleet_lines(serve: ServingWorkload, told: ServingEstimate, load: Fleet) -> tuple[Assumption, ...]:
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
            source=f"hour by hour, each filled to {TARGET:.0%} of {told.requests_per_s:.3g} requests/s",
        ),
        Assumption(
            name="deployments",
            value=f"{DEPLOYMENTS_PER_MONTH:g} a month of {DEPLOYMENT_H:g} h",
            unit=f"{rollout(serve, peak).value}: old and new version stand together",
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
