"""The instances that an autoscaler runs for a load, by hour, and the extra instances of a new version."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from launcher.model.endpoint import FILLED, EndpointMode, base_instances, batch_percent, endpoint_mode, rollout_of
from launcher.model.enums import Rollout
from launcher.model.schedule import Slot, hours_of_day
from launcher.model.serving import Instances
from launcher.model.units import HOURS_PER_MONTH
from launcher.model.workload import HOURS_A_DAY, ServingWorkload

SECONDS_PER_HOUR = 3600.0
AWAKE_H = 0.5
"""Hours that an instance runs after one request woke it: 20 minutes to start and load, 10 of cooldown; assumed."""
DEPLOYMENTS_PER_MONTH = 2.0
DEPLOYMENT_H = 0.75
"""Hours that both versions run: half an hour until ready, as Hugging Face reports for 70 B, and 15 minutes of bake."""


class Hosting(NamedTuple):
    """How copies of a model run on instances: in an endpoint with a mode, or as pods of Kubernetes (None)."""

    mode: EndpointMode | None = EndpointMode.VARIANT
    copies: int = 1


ONE_EACH = Hosting()


def hosting_of(workload: ServingWorkload, *, endpoint: bool, neuron: bool, copies: int) -> Hosting:
    """The hosting of copies on an instance of an endpoint, or of Kubernetes."""
    return Hosting(endpoint_mode(workload, neuron=neuron, copies=copies) if endpoint else None, copies)


class Short(NamedTuple):
    """The hour of the day in which a load exceeds the scheduled instances most."""

    hour: int
    needed: int
    allowed: int


class Fleet(NamedTuple):
    """The instances of an endpoint over the day, and its instance-hours a month.

    `used_hours` are the hours of full instances that the requests need; `deployment_hours` the extra hours of new
    versions. `short` is None if a schedule, if any, leaves room for every request.
    """

    instances: Instances
    hours: float
    used_hours: float
    deployment_hours: float
    short: Short | None = None


def served_per_s(workload: ServingWorkload) -> tuple[float, ...]:
    """Served requests per second in each hour of the day.

    In hours without a scheduled instance no requests are served or expected; with a queue requests wait.
    """
    ranges = hours_of_day(workload.schedule)
    if not ranges or workload.asynchronous:
        return workload.hourly
    opened = (sum(slot.share for slot in hour if slot.most) for hour in ranges)
    return tuple(per_s * share for per_s, share in zip(workload.hourly, opened, strict=True))


def fleet(workload: ServingWorkload, requests_per_s: float, hosting: Hosting = ONE_EACH) -> Fleet:
    """The instances for a load.

    Every hour has enough instances to fill each to FILLED with its requests, at least `min_instances`, and at least one
    a zone if any always runs. With a minimum of 0, an hour with too few requests for a permanent instance is billed
    by the probability of a request within the preceding AWAKE_H: 1 - exp(-requests x AWAKE_H / hour). On an
    endpoint with a schedule the hour's range replaces the minimum. Requests that wait in a queue while no instance may
    run are served later: the hours are never fewer than the requests need. `requests_per_s`: the throughput of one full
    instance, above 0.
    """
    counts, short = _instance_counts(workload, requests_per_s, hosting)
    most = math.ceil(max(count for _, count in counts))
    extra = update_instances(workload, hosting, max(1, most)) if most else 0
    mean = sum(share * count for share, count in counts) / HOURS_A_DAY
    used_hours = sum(served_per_s(workload)) / HOURS_A_DAY / requests_per_s * HOURS_PER_MONTH
    if workload.asynchronous:
        mean = max(mean, used_hours / HOURS_PER_MONTH)
    return Fleet(
        instances=Instances(least=min(count for _, count in counts), mean=mean, most=most),
        hours=mean * HOURS_PER_MONTH,
        used_hours=used_hours,
        deployment_hours=extra * DEPLOYMENT_H * DEPLOYMENTS_PER_MONTH,
        short=short,
    )


def _instance_counts(
    workload: ServingWorkload, requests_per_s: float, hosting: Hosting
) -> tuple[list[tuple[float, float]], Short | None]:
    """Shares of the day's hours with their instances, and the worst hour of a schedule that is too tight.

    Pods of Kubernetes have no schedule.
    """
    ranges = hours_of_day(workload.schedule) if hosting.mode is not None else ()
    if not ranges:
        floor = base_instances(workload)
        always = (
            _needed_instances(hourly_rate, requests_per_s, scales_to_zero=not floor) for hourly_rate in workload.hourly
        )
        return [(1.0, max(floor, count)) for count in always], None
    counts: list[tuple[float, float]] = []
    shorts: list[Short] = []
    for hour, (per_s, slots) in enumerate(zip(workload.hourly, ranges, strict=True)):
        for slot in slots:
            needed = _needed_instances(per_s, requests_per_s, scales_to_zero=not slot.least) if slot.most else 0.0
            counts.append((slot.share, max(slot.least, needed)))
            if slot.most and needed > slot.most:
                shorts.append(Short(hour, math.ceil(needed), slot.most))
    if workload.asynchronous:
        return counts, _queue_short(workload, requests_per_s, ranges)
    return counts, max(shorts, key=lambda short: short.needed - short.allowed, default=None)


def _queue_short(workload: ServingWorkload, requests_per_s: float, ranges: Sequence[Sequence[Slot]]) -> Short | None:
    """The worst hour if a queue grows without limit: the requests exceed the scheduled instance-hours; else None."""
    needed = sum(workload.hourly) / requests_per_s
    allowed = sum(slot.share * slot.most for hour in ranges for slot in hour)
    if needed <= allowed:
        return None
    hour = max(range(HOURS_A_DAY), key=workload.hourly.__getitem__)
    return Short(hour, math.ceil(needed / HOURS_A_DAY), math.floor(allowed / HOURS_A_DAY))


def _needed_instances(per_s: float, full: float, *, scales_to_zero: bool) -> float:
    """Instances in an hour; a fraction if the only one is off for a part of it."""
    if per_s <= 0:
        return 0.0
    whole = math.ceil(per_s / (full * FILLED) - 1e-9)
    if whole > 1 or not scales_to_zero:
        return float(max(1, whole))
    return -math.expm1(-per_s * SECONDS_PER_HOUR * AWAKE_H)


def update_instances(workload: ServingWorkload, hosting: Hosting, most: int) -> int:
    """Instances in addition to the running ones during a deployment, at the busiest hour."""
    if hosting.mode is None:
        # Pods give way to new ones on the same node, but for the only one (templates/kubernetes/service.yaml.j2).
        return 0 if most * hosting.copies > 1 else 1
    if rollout_of(workload, hosting.mode) is not Rollout.ROLLING:
        return most
    unit = hosting.copies if hosting.mode is EndpointMode.COMPONENTS else 1
    return math.ceil(batch_percent(base_instances(workload) * unit) / 100 * most)
