"""The limit of a launch, and budget.stop_at_usd: when the guard acts, and what it reserves to end a job.

The guard compares the limit with its own count since the creation of the cluster's stack: the running nodes at the
quoted rate, and the other hourly costs. The guard polls every few minutes, so it acts while enough remains for one
more period, for the grace time and the last upload, and for the shutdown of the nodes.
"""

import math
from decimal import Decimal

from launcher.model.enums import COMMITTED, PurchaseOption
from launcher.model.money import cents
from launcher.model.monitoring import GUARD_EVERY_MINUTES
from launcher.model.plan import Plan
from launcher.model.request import Budget, PlanRequest

UPLOAD_S = 180
"""Seconds after the grace time for the upload of the last checkpoint."""
ENDING_MINUTES = 5
"""Minutes from the guard's stop until AWS stops billing the nodes: an assumption, one of the guard's periods."""


def spending_limit(budget: Budget, command_usd: Decimal | None) -> tuple[Decimal, str] | None:
    """The lower of `max_usd` and a command's limit, with the name of its setting; None without either.

    >>> ten, four = Decimal(10), Decimal(4)
    >>> spending_limit(Budget(max_usd=ten), four), spending_limit(Budget(max_usd=four), ten)
    ((Decimal('4'), '--max-usd'), (Decimal('4'), 'budget.max_usd'))
    """
    limits = ((budget.max_usd, "budget.max_usd"), (command_usd, "--max-usd"))
    return min(((usd, name) for usd, name in limits if usd is not None), key=lambda known: known[0], default=None)


def settle_minutes(request: PlanRequest) -> int:
    """Minutes from the guard's notification of a job until it stops the nodes, in full periods of the guard.

    An endpoint saves nothing, so the guard deletes it immediately.

    >>> settle_minutes(PlanRequest(slipway=1, name="tiny"))
    0
    """
    if request.workload.train is None:
        return 0
    periods = math.ceil((request.checkpoint.grace_seconds + UPLOAD_S) / 60 / GUARD_EVERY_MINUTES)
    return periods * GUARD_EVERY_MINUTES


def reserve_minutes(request: PlanRequest) -> int:
    """Minutes of all nodes that the guard reserves from the limit: a period, grace time with upload, shutdown."""
    return GUARD_EVERY_MINUTES + settle_minutes(request) + ENDING_MINUTES


def reserve_usd(request: PlanRequest, usd_per_hour: Decimal) -> Decimal:
    """The reserve in dollars, at the rate of all nodes."""
    return (usd_per_hour * reserve_minutes(request) / 60).quantize(Decimal("0.01"))


def stop_text(plan: Plan, limit: Decimal, usd_per_hour: Decimal | None) -> str:
    """When the guard acts on a limit of `budget.stop_at_usd`, for the rate of all nodes, in words."""
    why = exempt(plan.request, plan.place.option)
    if why is not None:
        return f"it stops nothing: {why}"
    if plan.request.workload.train is None:
        return "the guard ends the endpoint at that sum"
    if usd_per_hour is None:
        return "the guard ends the job before that sum, so that it saves in time"
    reserve = reserve_usd(plan.request, usd_per_hour)
    return f"the guard ends the job at ${cents(max(Decimal(0), limit - reserve))}; ${cents(reserve)} is for its end"


def exempt(request: PlanRequest, option: PurchaseOption) -> str | None:
    """Why a stop would save nothing, in words: prepaid or committed capacity costs the same; None if it would save."""
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
    """Whether the job goes to an existing cluster, whose guard counts all of its jobs, or that has no guard."""
    return request.target.cluster is not None or request.target.ssh_host is not None


def stops_at(request: PlanRequest, option: PurchaseOption) -> Decimal | None:
    """The spending limit at which the guard stops the nodes; None if it does not."""
    return request.budget.stop_at_usd if exempt(request, option) is None else None
