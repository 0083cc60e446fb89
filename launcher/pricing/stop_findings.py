"""Findings for limits that may end a job early: budget.stop_at_usd, a time to live, a time limit, retries."""

import math
from collections.abc import Iterator
from decimal import Decimal

from launcher.catalog.quotas import load_quotas
from launcher.model.administrator import by_administrator
from launcher.model.budget_stop import exempt, is_joined, reserve_minutes, reserve_usd
from launcher.model.enums import PREPAID, CheckpointMode
from launcher.model.finding import Finding, error, warning
from launcher.model.money import Range, UsdRange, cents
from launcher.model.plan import Place, Plan
from launcher.model.request import PlanRequest
from launcher.model.target import SLURM
from launcher.model.training_job import LONGEST_H
from launcher.model.units import HOUR_S
from launcher.planning.quotas import RUN_TIME, AccountQuotas, account_run_s, default_run_s, increase_command
from launcher.pricing.chances import TARGET_CHANCE, chance_above, chance_of_at_most, needed_retries
from launcher.targets.registry import target_of

PATH = "budget.stop_at_usd"
STOPPED_BY_QUOTA = "run-time-quota"
"""The code of the warning that a training job outlasts what an account allows."""
LIMIT_NEEDED = "time-limit-needed"
"""The code of the warning that the account allows the hours and the plan does not ask for them."""
RAISE = "raise it; after a stop, raise it and launch again: the job resumes from its last checkpoint"


def time_findings(place: Place, request: PlanRequest, hours: Range, start_h: float) -> Iterator[Finding]:
    """Warnings for time limits that the job's range of hours exceeds.

    Args:
        place: the place; prepaid nodes have no time to live.
        request: the plan.
        hours: wall hours of the job.
        start_h: hours of the nodes before the job's first step.
    """
    if request.workload.train is None:
        return
    ttl_h, limit_h = request.guardrails.ttl_h, request.run.time_limit_h
    limits = []
    if ttl_h is not None and place.option not in PREPAID and not is_joined(request):
        limits.append(
            ("ttl-too-short", "guardrails.ttl_h", ttl_h - start_h, f"the guard stops the nodes after {ttl_h:g} h")
        )
    if limit_h is not None:
        resumes = target_of(place.target).scheduler == SLURM and request.checkpoint.mode is not CheckpointMode.NONE
        reason = (
            f"Slurm ends each start of the job after {limit_h:g} h and starts it again if it has stored a checkpoint"
            if resumes
            else f"the job is stopped after {limit_h:g} h"
        )
        limits.append(("time-limit-too-short", "run.time_limit_h", limit_h, reason))
    for code, path, left_h, reason in limits:
        if hours.high > left_h:
            spread = f"{hours.low:,.1f} to {hours.high:,.1f}"
            message = (
                f"{reason}, and the job takes {hours.mid:,.1f} h ({spread}) after {start_h:.1f} h of start-up:"
                f" a {chance_above(hours, left_h):.0%} risk of being cut off"
            )
            yield warning(code, path, message, f"at least {hours.high + start_h:,.0f}, or more nodes")


def longest_run_h(place: Place, request: PlanRequest, account: AccountQuotas) -> float:
    """Hours for which a job may run in one launch: a training job has a quota, and no other target has a limit.

    The account's quota where it was read; else its default, or with `run.time_limit_h`, which says that the account has
    more, the most of any account.
    """
    if request.workload.train is None or not target_of(place.target).in_service_network:
        return math.inf
    known_s = account_run_s(place.region, load_quotas(), account)
    if known_s is not None:
        return min(known_s / HOUR_S, LONGEST_H)
    return default_run_s(load_quotas()) / HOUR_S if request.run.time_limit_h is None else LONGEST_H


def run_time_findings(plan: Plan, hours: Range, account: AccountQuotas) -> Iterator[Finding]:
    """A warning if a training job may take longer than the account, or every account, allows one to run."""
    request, quotas = plan.request, load_quotas()
    default_h, limit_h = default_run_s(quotas) / HOUR_S, request.run.time_limit_h
    known_s = account_run_s(plan.place.region, quotas, account)
    longest_h = default_h if known_s is None else known_s / HOUR_S
    whose = "the default of the quota" if known_s is None else "the account's quota"
    name = f"{whose} '{quotas[RUN_TIME].name}' is {longest_h:g} h"
    if request.workload.train is None:
        return
    if limit_h is not None and limit_h > longest_h:
        message = (
            f"{name}, run.time_limit_h asks for {limit_h:g} h: SageMaker refuses the job until the quota is raised"
        )
        hint = f"{longest_h:g}, or ask for {limit_h * HOUR_S:,.0f} seconds in Service Quotas (sagemaker)"
        yield warning(STOPPED_BY_QUOTA, "run.time_limit_h", message, hint)
    elif limit_h is None and hours.high > longest_h:
        message = f"{name}, and the job takes up to {hours.high:,.0f} h: SageMaker stops it after {longest_h:g} h"
        again = "launch again: it resumes from its newest checkpoint"
        if request.checkpoint.mode is CheckpointMode.NONE:
            again = "set checkpoint.mode: agent to resume"
        limit = f"set run.time_limit_h to {math.ceil(hours.high)} or more: slipway doctor FILE then reads the quota"
        hint = f"{again}; or, where the account's quota is higher, {limit}"
        if known_s is not None:
            more_s = min(math.ceil(hours.high), LONGEST_H) * HOUR_S
            request_more = increase_command(plan.place.region, quotas[RUN_TIME].service, quotas[RUN_TIME].code, more_s)
            hint = f"{again}; or {by_administrator(request_more)}"
        if hours.high > LONGEST_H:
            message += f". No quota allows more than {LONGEST_H:g} h"
            hint = f"more nodes, or another target.kind; else after each stop {again}"
        yield warning(STOPPED_BY_QUOTA, "run.time_limit_h", message, hint)
    elif limit_h is None and hours.high > default_h:
        limit = f"run.time_limit_h: {math.ceil(hours.high)}"
        message = (
            f"{name}, and the job takes up to {hours.high:,.0f} h: without {limit} it is stopped after {default_h:g} h"
        )
        yield warning(LIMIT_NEEDED, "run.time_limit_h", message, f"set {limit}")


def retry_findings(request: PlanRequest, failures: float, hours: float) -> Iterator[Finding]:
    """A warning if the retries are too few for the failures expected of a job of `hours`.

    The agent ends a job after two failures in a row without a newer checkpoint between them; without checkpoints,
    after any two failures.
    """
    retries, has_checkpoints = request.run.retries, request.checkpoint.mode is not CheckpointMode.NONE
    if request.workload.train is None or (retries is None and has_checkpoints):
        return
    if not has_checkpoints and (retries is None or retries > 0) and chance_of_at_most(failures, 1) < TARGET_CHANCE:
        message = (
            f"{failures:.1f} failures of the program are expected in {hours:,.0f} h, and without checkpoints the second"
            f" ends the job: a {chance_of_at_most(failures, 1):.1%} chance of finishing without another launch"
        )
        yield warning("no-checkpoints-to-retry-from", "checkpoint.mode", message, "agent")
        return
    if retries is None:
        return
    chance = chance_of_at_most(failures, retries)
    if chance < TARGET_CHANCE:
        message = (
            f"{failures:.1f} failures of the program are expected in {hours:,.0f} h, run.retries is {retries}:"
            f" a {chance:.1%} chance of finishing without another launch"
        )
        yield warning("too-few-retries", "run.retries", message, f"auto, or {needed_retries(failures)}")


def stop_findings(plan: Plan, usd: UsdRange | None, usd_per_hour: Decimal | None) -> Iterator[Finding]:
    """Findings for budget.stop_at_usd and a candidate.

    Args:
        plan: the candidate's plan.
        usd: its total; for serving, the total of a month.
        usd_per_hour: hourly rate of all its instances.
    """
    limit = plan.request.budget.stop_at_usd
    if limit is None:
        return
    why = exempt(plan.request, plan.place.option)
    if why is not None:
        yield warning("stop-exempt", PATH, f"the job is not stopped at ${cents(limit)}: {why}", "remove it")
        return
    if is_joined(plan.request):
        name = plan.request.target.cluster or plan.request.target.ssh_host
        message = f"{name} exists already: its guard counts all jobs there and cannot stop one at ${cents(limit)}"
        yield error(
            "stop-without-guard", PATH, message, "remove it, or remove target.cluster to build a cluster for this job"
        )
        return
    if usd_per_hour is None:
        return
    reserve = reserve_usd(plan.request, usd_per_hour)
    if limit <= reserve:
        message = (
            f"${cents(limit)} leaves nothing for the job: the guard reserves ${cents(reserve)},"
            f" {reserve_minutes(plan.request)} minutes of all nodes, to save and shut down"
        )
        hint = f"more than {cents(reserve)}, or a smaller checkpoint.grace_seconds"
        yield error("stop-below-reserve", PATH, message, hint)
    elif usd is not None and limit - reserve < usd.low and plan.request.workload.train is not None:
        message = (
            f"the job needs at least ${cents(usd.low)}: the guard stops it at about ${cents(limit - reserve)},"
            " after a save, and it does not finish"
        )
        yield warning("stop-below-estimate", PATH, message, RAISE)
    elif usd is not None and limit - reserve < usd.high and plan.request.workload.train is not None:
        span = Range(low=float(usd.low), mid=float(usd.mid), high=float(usd.high))
        message = (
            f"the guard stops the job at about ${cents(limit - reserve)}, and the job may cost up to"
            f" ${cents(usd.high)}: a {chance_above(span, float(limit - reserve)):.0%} risk of a stop before the end"
        )
        yield warning("stop-within-estimate", PATH, message, RAISE)
    highest = plan.request.budget.max_usd
    if highest is not None and limit > highest:
        message = f"${cents(limit)} is above budget.max_usd, ${cents(highest)}: nothing ends the job at budget.max_usd"
        yield warning("stop-above-budget", PATH, message, "set it to budget.max_usd or less")
