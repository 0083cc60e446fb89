"""budget.stop_at_usd: when the guard in the account acts, and which part of the sum it needs to end a job in order.

The sum is held against what the guard counts: the running nodes at the quoted rate, and what costs by the hour beside
them, since the cluster's stack was made. It looks every few minutes, so it acts while there is still enough left for
one more of its periods, for the grace time and the last upload, and for the machines to go.
"""

import math
from decimal import Decimal

from launcher.model.enums import COMMITTED, PurchaseOption
from launcher.model.monitoring import GUARD_EVERY_MINUTES
from launcher.model.request import PlanRequest

UPLOAD_S = 180
"""After the grace time, for the last checkpoint's way into the store: the tail."""
ENDING_MINUTES = 5
"""From the guard's word until AWS bills the machines no more: an assumption, one of its periods."""


def settle_minutes(request: PlanRequest) -> int:
    """Minutes from the guard's word to a job until it ends the machines, in whole periods of its own.

    An endpoint saves nothing: it goes at once.

    >>> settle_minutes(PlanRequest(slipway=1, name="tiny"))
    0
    """
    if request.workload.train is None:
        return 0
    periods = math.ceil((request.checkpoint.grace_seconds + UPLOAD_S) / 60 / GUARD_EVERY_MINUTES)
    return periods * GUARD_EVERY_MINUTES


def reserve_minutes(request: PlanRequest) -> int:
    """Minutes of the machines that the guard keeps back of the sum: a period, the grace time with its tail, the end."""
    return GUARD_EVERY_MINUTES + settle_minutes(request) + ENDING_MINUTES


def reserve_usd(request: PlanRequest, usd_per_hour: Decimal) -> Decimal:
    """The same in dollars, at the rate of all nodes."""
    return (usd_per_hour * reserve_minutes(request) / 60).quantize(Decimal("0.01"))


def exempt(request: PlanRequest, option: PurchaseOption) -> str | None:
    """Why a stop would save nothing, in words: what is paid for whether or not it is used; None where it would."""
    if option is PurchaseOption.CAPACITY_BLOCK:
        return "a Capacity Block is prepaid"
    if option is PurchaseOption.TRAINING_PLAN:
        return "a training plan is prepaid"
    if request.purchase.reservation is not None:
        return "the reservation is billed whether or not its nodes run"
    if request.purchase.owned and option in COMMITTED:
        return "the commitment is owned: it is paid whether or not its nodes run"
    return None


def is_joined(request: PlanRequest) -> bool:
    """Whether the job goes to a cluster that exists, whose guard counts for all of its jobs, or that has none."""
    return request.target.cluster is not None or request.target.ssh_host is not None


def stops_at(request: PlanRequest, option: PurchaseOption) -> Decimal | None:
    """The sum at which the guard stops the machines; None where it does not."""
    return request.budget.stop_at_usd if exempt(request, option) is None else None
