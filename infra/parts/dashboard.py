"""A cluster at one glance: nodes, money, accelerators, head node."""

from typing import Any

from aws_cdk import Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from infra.parts.guardrails import NAMESPACE, Limits
from launcher.model.plan import Plan
from launcher.rendering.cluster import cluster_name

_WIDTH, _HEIGHT = 12, 6
_ACCELERATORS = (
    ("AcceleratorUtilization", "Utilisation of accelerators, %, by node"),
    ("AcceleratorMemoryUsed", "Memory of accelerators in use, bytes, by node"),
    ("AcceleratorErrors", "Uncorrectable memory errors, by node"),
)


class Dashboard(Construct):
    """A CloudWatch dashboard. Dashboards belong to an account, not to a region, hence the region in the name.

    Attributes:
        url: where it is seen.
    """

    def __init__(self, scope: Construct, id_: str, *, plan: Plan, limits: Limits, head_node: str) -> None:
        """Make the dashboard.

        Args:
            scope: the stack.
            id_: construct id.
            plan: the plan.
            limits: money; a budget is drawn as a line.
            head_node: the head node's instance id; a token.
        """
        super().__init__(scope, id_)
        region, cluster = plan.place.region, plan.cluster_name
        own = [NAMESPACE, "RunningNodes", "Cluster", cluster]
        widgets = [_graph("Running nodes", region, [own], stat="Maximum")]
        if limits.usd_per_node_hour is not None:
            spend = [NAMESPACE, "EstimatedSpend", "Cluster", cluster]
            line = [] if limits.max_usd is None else [{"label": "budget", "value": float(limits.max_usd)}]
            widgets.append(_graph("Estimated spend, $", region, [spend], stat="Maximum", lines=line))
        widgets += [_graph(title, region, [[_by_node(metric, cluster)]]) for metric, title in _ACCELERATORS]
        widgets.append(
            _graph("CPU of the head node, %", region, [["AWS/EC2", "CPUUtilization", "InstanceId", head_node]])
        )
        widgets.append(_words(plan, head_node))
        name = f"{cluster_name(plan)}-{region}"
        body = {"widgets": [_placed(widget, index) for index, widget in enumerate(widgets)]}
        cloudwatch.CfnDashboard(
            self, "Dashboard", dashboard_name=name, dashboard_body=Stack.of(self).to_json_string(body)
        )
        self.url = (
            f"https://{region}.console.aws.amazon.com/cloudwatch/home?region={region}#dashboards/dashboard/{name}"
        )


def _placed(widget: dict[str, Any], index: int) -> dict[str, Any]:
    """A widget in its place: two in a row."""
    return {
        **widget,
        "x": index % 2 * _WIDTH,
        "y": index // 2 * _HEIGHT,
        "width": _WIDTH,
        "height": _HEIGHT,
    }


def _graph(
    title: str, region: str, metrics: list[Any], *, stat: str = "Average", lines: list[dict[str, Any]] | None = None
) -> dict[str, Any]:
    """A graph over time."""
    properties: dict[str, Any] = {
        "title": title,
        "region": region,
        "metrics": metrics,
        "stat": stat,
        "period": 300,
        "view": "timeSeries",
        "yAxis": {"left": {"min": 0}},
    }
    if lines:
        properties["annotations"] = {"horizontal": lines}
    return {"type": "metric", "properties": properties}


def _by_node(metric: str, cluster: str) -> dict[str, str]:
    """A search for one metric of every node of a cluster; the nodes' ids are not known in advance."""
    words = f'{{{NAMESPACE},Cluster,InstanceId}} MetricName="{metric}" Cluster="{cluster}"'
    return {"expression": f"SEARCH('{words}', 'Average', 300)", "id": "e1"}


def _words(plan: Plan, head_node: str) -> dict[str, Any]:
    """Where to look further, and how to get in."""
    region, name = plan.place.region, cluster_name(plan)
    lines = (
        f"### {plan.cluster_name}",
        f"A shell on the head node: `aws ssm start-session --region {region} --target {head_node}`",
        f"Logs of scheduler, jobs and nodes: the log group that begins with `/aws/parallelcluster/{name}-`",
        f"The fleet: `pcluster describe-compute-fleet --region {region} --cluster-name {name}`",
    )
    return {"type": "text", "properties": {"markdown": "\n\n".join(lines)}}
