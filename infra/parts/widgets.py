"""CloudWatch dashboards: their widgets, two per row, and their URL."""

from collections.abc import Iterable, Mapping
from typing import Any

from aws_cdk import Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from infra.parts.limits import Limits
from launcher.model.monitoring import NAMESPACE, SPEND_METRIC
from launcher.model.plan import Plan

_WIDTH, _HEIGHT = 12, 6
"""CloudWatch's grid has 24 columns."""


def add_dashboard(scope: Construct, id_: str, *, name: str, region: str, widgets: Iterable[Mapping[str, Any]]) -> str:
    """Add a CloudWatch dashboard; return its URL. Dashboards are global to an account, hence the region in the name."""
    placed = [
        {**widget, "x": index % 2 * _WIDTH, "y": index // 2 * _HEIGHT, "width": _WIDTH, "height": _HEIGHT}
        for index, widget in enumerate(widgets)
    ]
    body = Stack.of(scope).to_json_string({"widgets": placed})
    full_name = f"{name}-{region}"
    cloudwatch.CfnDashboard(Construct(scope, id_), "Dashboard", dashboard_name=full_name, dashboard_body=body)
    console = f"https://{region}.console.aws.amazon.com/cloudwatch/home?region={region}"
    return f"{console}#dashboards/dashboard/{full_name}"


def graph(title: str, region: str, metrics: list[Any], *, stat: str = "Average") -> dict[str, Any]:
    """A graph of metrics over time."""
    properties: dict[str, Any] = {
        "title": title,
        "region": region,
        "metrics": metrics,
        "stat": stat,
        "period": 300,
        "view": "timeSeries",
        "yAxis": {"left": {"min": 0}},
    }
    return {"type": "metric", "properties": properties}


def spend(plan: Plan, limits: Limits) -> list[dict[str, Any]]:
    """The estimated spend, with a line at the budget; nothing if the nodes have no price."""
    if limits.usd_per_node_hour is None:
        return []
    metric = [NAMESPACE, SPEND_METRIC, "Cluster", plan.cluster_name]
    widget = graph("Estimated spend, $", plan.place.region, [metric], stat="Maximum")
    if limits.max_usd is not None:
        line = {"label": "budget", "value": float(limits.max_usd)}
        widget["properties"]["annotations"] = {"horizontal": [line]}
    return [widget]


def text(plan: Plan, lines: Iterable[str]) -> dict[str, Any]:
    """Lines of Markdown below the name of a plan's cluster or endpoint."""
    return {"type": "text", "properties": {"markdown": "\n\n".join((f"### {plan.cluster_name}", *lines))}}
