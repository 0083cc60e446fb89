"""The instances that an autoscaler keeps for a load, hour by hour, and what new versions take beside them."""

import math
from typing import NamedTuple

from launcher.model.endpoint import FILLED, EndpointMode, batch_percent, endpoint_mode, least_instances, rollout_of
from launcher.model.enums import Rollout
from launcher.model.serving import Instances
from launcher.model.workload import HOURS_A_DAY, ServingWorkload

HOURS_PER_MONTH = 730.0
"""AWS's own month: 8,760 hours over 12."""
SECONDS_PER_HOUR = 3600.0
AWAKE_H = 0.5
"""Hours an instance stays up for one request that woke it: 20 minutes to start and load, 10 of cooldown; assumed."""
DEPLOYMENTS_PER_MONTH = 2.0
DEPLOYMENT_H = 0.75
"""Hours that both versions stand: half an hour to serve, as Hugging Face reports for 70 B, and 15 minutes of bake."""


class Stand(NamedTuple):
    """How copies of a model stand on instances: in an endpoint of a mode, or as pods of Kubernetes (None)."""

    mode: EndpointMode | None = EndpointMode.VARIANT
    copies: int = 1


ONE_EACH = Stand()


def stand_of(workload: ServingWorkload, *, endpoint: bool, neuron: bool, copies: int) -> Stand:
    """How copies stand on a machine of an endpoint, or of Kubernetes.

    Args:
        workload: the workload.
        endpoint: whether they are a SageMaker endpoint's.
        neuron: whether the chips are Neuron's.
        copies: of the model on an instance.
    """
    return Stand(endpoint_mode(workload, neuron=neuron, copies=copies) if endpoint else None, copies)


class Fleet(NamedTuple):
    """What an endpoint runs: instances over the day, and instance-hours a month.

    `used_hours` is what the requests would take of full instances; `deployment_hours` what new versions add.
    """

    instances: Instances
    hours: float
    used_hours: float
    deployment_hours: float


def fleet(workload: ServingWorkload, requests_per_s: float, stand: Stand = ONE_EACH) -> Fleet:
    """The instances for a load.

    Every hour has as many as its requests fill to FILLED, and never fewer than `min_instances`, nor than one a zone
    where any is always there. With a minimum of 0 an hour without enough requests to keep one instance up is paid for
    by the share of time that a request was there within AWAKE_H before: 1 - exp(-requests x AWAKE_H / hour).

    Args:
        workload: traffic, minimum, zones and the way of deploying.
        requests_per_s: what one instance serves when it is full, above 0.
        stand: how its copies are deployed.
    """
    floor = least_instances(workload)
    load = workload.hourly
    counts = [max(floor, _needed(each, requests_per_s, scales_to_zero=not floor)) for each in load]
    most = math.ceil(max(counts))
    extra = _extra(workload, stand, max(1, most)) if most else 0
    mean = sum(counts) / HOURS_A_DAY
    return Fleet(
        instances=Instances(least=min(counts), mean=mean, most=most),
        hours=mean * HOURS_PER_MONTH,
        used_hours=sum(load) / HOURS_A_DAY / requests_per_s * HOURS_PER_MONTH,
        deployment_hours=extra * DEPLOYMENT_H * DEPLOYMENTS_PER_MONTH,
    )


def _needed(per_s: float, full: float, *, scales_to_zero: bool) -> float:
    """Instances in an hour; a fraction where the only one sleeps for a part of it."""
    if per_s <= 0:
        return 0.0
    whole = math.ceil(per_s / (full * FILLED) - 1e-9)
    if whole > 1 or not scales_to_zero:
        return float(max(1, whole))
    return -math.expm1(-per_s * SECONDS_PER_HOUR * AWAKE_H)


def _extra(workload: ServingWorkload, stand: Stand, most: int) -> int:
    """Instances beside the running ones while a new version is deployed, at the busiest hour."""
    if stand.mode is None:
        # Pods give way to new ones on the same node, but for the only one (templates/kubernetes/service.yaml.j2).
        return 0 if most * stand.copies > 1 else 1
    if rollout_of(workload, stand.mode) is not Rollout.ROLLING:
        return most
    unit = stand.copies if stand.mode is EndpointMode.COMPONENTS else 1
    return math.ceil(batch_percent(least_instances(workload) * unit) / 100 * most)
