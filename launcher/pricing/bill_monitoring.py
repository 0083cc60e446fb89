"""Monitoring of a cluster as lines of the bill: alarms, metrics, dashboard, the guard, an AWS Budget."""

from collections.abc import Iterator

from launcher.model.instance_type import InstanceType
from launcher.model.money import Assumption, Price, Unpriced
from launcher.model.monitoring import (
    DASHBOARDS,
    GUARD_EVERY_MINUTES,
    GUARD_MEMORY_MB,
    HEAD_NODE_REPORTS_PER_HOUR,
    JOB_REPORTS_PER_HOUR,
    NODE_REPORTS_PER_HOUR,
    alarms,
    guard_metrics,
    node_metrics,
)
from launcher.model.plan import Place
from launcher.model.request import PlanRequest
from launcher.model.target import SLURM, HeadNode, Target
from launcher.model.units import HOURS_PER_MONTH, number_of
from launcher.pricing.bill_lines import Line, Prices, combine_prices
from launcher.targets.registry import target_of

GUARD_SECONDS = 3.0
"""One call of the guard: an assumption."""
GUARD_REQUESTS = 1
"""CloudWatch requests of one call: the guard reports all its metrics at once; its own count is a parameter of Systems
Manager."""
GUARD_LISTINGS = 1
"""List requests of one call: the messages of jobs (templates/guard/job_messages.py). S3 bills them like writes."""
JOB_BEATS_PER_HOUR = 12
"""Objects that each node of a job writes for the guard (launcher/agent/store/heartbeat.py)."""
MESSAGES_PER_HOUR = 1.0
"""Messages on the cluster's topic: an assumption, more than a quiet cluster sends."""
GUARD_CALLS_PER_HOUR = 60 / GUARD_EVERY_MINUTES
PER_MONTH = 1 / HOURS_PER_MONTH
NO_HEAD_NODE = HeadNode(name="")


def monitoring_lines(prices: Prices, request: PlanRequest, target: Target) -> Iterator[Line]:
    """The monitoring lines of a new cluster, including those of its head node."""
    head = target.head or NO_HEAD_NODE
    counter_mb = 0 if target.guard is None else target.guard.counter_mb
    lines = list(watch(prices, request, own_alarms=head.alarms, counter_mb=counter_mb))
    if head.composite_alarms:
        item = "cloudwatch.composite-alarm"
        line = prices.line(f"composite alarm of the {head.name}", "other", item, "alarm-month")
        lines.insert(1, line._replace(once=head.composite_alarms))
    for line in lines:
        yield line._replace(once=0.0, an_hour_up=line.once * PER_MONTH)
    listings = prices.line("S3 listings of the guard", "other", "s3.put-requests", "1000 requests")
    yield listings.while_up(GUARD_CALLS_PER_HOUR * GUARD_LISTINGS / 1000)


def watch(prices: Prices, request: PlanRequest, *, own_alarms: int, counter_mb: int = 0) -> Iterator[Line]:
    """The guardrails of every target for one month: alarms, a dashboard, the guard, an AWS Budget.

    Slipway passes on the quoted rate, so the alarm on spending exists whenever the plan has a budget.

    Args:
        prices: the region's prices.
        request: the plan.
        own_alarms: alarms of the target in addition to those of the guardrails.
        counter_mb: memory of the function that the guard calls at each poll; 0 for none.
    """
    budgeted = request.budget.max_usd is not None
    count = len(alarms(budgeted=budgeted, rated=True)) + own_alarms
    name = number_of(count, "alarm")
    yield prices.line(name, "other", "cloudwatch.alarm", "alarm-month")._replace(once=count)
    dashboard = Line("dashboard", "other", "dashboard-month", prices.past_allowance("cloudwatch.dashboard"))
    yield dashboard._replace(once=DASHBOARDS)
    yield Line("guard and its messages", "other", "function-month", _guard_price(prices, counter_mb), once=1)
    if budgeted and prices.has_budget:
        yield prices.line("AWS Budget", "other", "budgets.budget", "budget-month")._replace(once=1)


def metrics(
    prices: Prices, place: Place, facts: InstanceType, *, own_cluster: bool, stops: bool = False
) -> Iterator[Line]:
    """Custom metrics and the calls that carry them: of the nodes, and of a new cluster.

    Args:
        prices: the region's prices.
        place: the nodes.
        facts: their instance type.
        own_cluster: whether the cluster is created for the job.
        stops: whether the guard ends the job at a spending limit; until then the guard reports one metric more.
    """
    # Only nodes of Slurm have what reports their accelerators to CloudWatch.
    of_nodes = len(node_metrics(facts)) * place.nodes if target_of(place.target).scheduler == SLURM else 0
    calls = NODE_REPORTS_PER_HOUR * place.nodes if of_nodes else 0.0
    of_cluster = cluster_calls = 0.0
    target = target_of(place.target)
    head, guard = target.head or NO_HEAD_NODE, target.guard
    if own_cluster:
        of_cluster = len(guard_metrics(rated=True, stops=stops)) + head.metrics
        reports = HEAD_NODE_REPORTS_PER_HOUR if head.metrics else 0
        cluster_calls = GUARD_CALLS_PER_HOUR * GUARD_REQUESTS + reports
        if guard is not None:
            of_cluster += guard.own_metrics
            of_nodes += guard.job_metrics
            count = guard.metrics_per_call + guard.job_metrics + guard.metrics_a_node * place.nodes
            calls += GUARD_CALLS_PER_HOUR * count + JOB_REPORTS_PER_HOUR * guard.job_metrics * place.nodes
    if not of_nodes and not of_cluster:
        return
    line = prices.line("custom metrics", "other", "cloudwatch.custom-metric", "metric-month")
    yield line._replace(an_hour_up=of_cluster * PER_MONTH, a_node_hour=of_nodes * PER_MONTH)
    line = prices.line("CloudWatch requests", "other", "cloudwatch.requests", "1000 requests")
    yield line._replace(an_hour_up=cluster_calls / 1000, a_node_hour=calls / 1000)
    if own_cluster and guard is not None:
        line = prices.line("heartbeats of the job", "other", "s3.put-requests", "1000 requests")
        yield line._replace(a_node_hour=JOB_BEATS_PER_HOUR * place.nodes / 1000)


def _guard_price(prices: Prices, counter_mb: int) -> Price | Unpriced:
    """A month of the guard: its calls, those of the function it calls, their memory time, and its notifications."""
    calls = GUARD_CALLS_PER_HOUR * HOURS_PER_MONTH
    parts = (
        (calls * (1 + bool(counter_mb)) / 1e6, prices.item("lambda.requests")),
        (
            calls * GUARD_SECONDS * (GUARD_MEMORY_MB + counter_mb) / 1024,
            prices.item("lambda.duration-x86"),
        ),
        (MESSAGES_PER_HOUR * HOURS_PER_MONTH / 1e6, prices.past_allowance("sns.requests")),
    )
    return combine_prices(parts)


def monitoring_assumptions() -> Iterator[Assumption]:
    """The assumptions behind the monitoring lines."""
    yield Assumption(
        name="the guard",
        value=f"{GUARD_CALLS_PER_HOUR:g} calls of {GUARD_SECONDS:g} s",
        unit="an hour",
        source="its schedule; seconds assumed, not measured; the free tier is not counted",
    )
