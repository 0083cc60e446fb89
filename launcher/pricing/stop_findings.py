"""What is to be said of the sum at which a candidate's machines are stopped, once it has a price."""

from collections.abc import Iterator
from decimal import Decimal

from launcher.model.budget_stop import exempt, is_joined, reserve_minutes, reserve_usd
from launcher.model.finding import Finding, error, warning
from launcher.model.money import UsdRange
from launcher.model.plan import Plan

PATH = "budget.stop_at_usd"


def stop_findings(plan: Plan, usd: UsdRange | None, usd_per_hour: Decimal | None) -> Iterator[Finding]:
    """What the sum means for a candidate.

    Args:
        plan: the candidate's.
        usd: its total; of serving, of a month.
        usd_per_hour: of all its machines.
    """
    limit = plan.request.budget.stop_at_usd
    if limit is None:
        return
    why = exempt(plan.request, plan.place.option)
    if why is not None:
        yield warning("stop-exempt", PATH, f"nothing is stopped at ${limit:,.2f}: {why}", "drop it")
        return
    if is_joined(plan.request):
        name = plan.request.target.cluster or plan.request.target.ssh_host
        message = f"{name} exists: its guard counts for all of its jobs, and not up to ${limit:,.2f}"
        yield error("stop-without-guard", PATH, message, "drop it, or drop target.cluster to have a cluster of its own")
        return
    if usd_per_hour is None:
        return
    reserve = reserve_usd(plan.request, usd_per_hour)
    if limit <= reserve:
        message = (
            f"${limit:,.2f} is used up before the job begins: the guard keeps ${reserve:,.2f} back,"
            f" {reserve_minutes(plan.request)} minutes of all machines, to end it in good order"
        )
        hint = f"more than {reserve:,.2f}, or a smaller checkpoint.grace_seconds"
        yield error("stop-below-reserve", PATH, message, hint)
    elif usd is not None and limit - reserve < usd.low and plan.request.workload.train is not None:
        message = (
            f"the job needs ${usd.low:,.2f} at least: it is stopped at about ${limit - reserve:,.2f},"
            " saves, and does not finish"
        )
        hint = "raise it; after a stop, raise it and launch again: the job resumes from its last checkpoint"
        yield warning("stop-below-estimate", PATH, message, hint)
    highest = plan.request.budget.max_usd
    if highest is not None and limit > highest:
        message = f"${limit:,.2f} is above budget.max_usd, ${highest:,.2f}: the budget does not end the job"
        yield warning("stop-above-budget", PATH, message, "at most budget.max_usd, where that is what may be spent")
