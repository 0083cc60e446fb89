"""An endpoint at one glance: requests, errors, time to answer, instances, money."""

from typing import Any

from aws_cdk import Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from infra.parts.endpoint import VARIANT
from infra.parts.guardrails import NAMESPACE
from infra.parts.limits import Limits
from launcher.model.endpoint import Endpoint, EndpointMode
from launcher.model.monitoring import GUARD_METRICS, SPEND_METRIC
from launcher.model.plan import Plan

_WIDTH, _HEIGHT = 12, 6
_SAGEMAKER = "AWS/SageMaker"


class EndpointDashboard(Construct):
    """A CloudWatch dashboard. Dashboards belong to an account, not to a region, hence the region in the name.

    Attributes:
        url: where it is seen.
    """

    def __init__(self, scope: Construct, id_: str, *, plan: Plan, endpoint: Endpoint, limits: Limits) -> None:
        super().__init__(scope, id_)
        self._region = plan.place.region
        widgets = [*self._requests(endpoint), *self._capacity(plan, limits), self._words(plan, endpoint)]
        placed = [{**widget, **_position(index)} for index, widget in enumerate(widgets)]
        name = f"{endpoint.name}-{self._region}"
        cloudwatch.CfnDashboard(
            self,
            "Dashboard",
            dashboard_name=name,
            dashboard_body=Stack.of(self).to_json_string({"widgets": placed}),
        )
        console = f"https://{self._region}.console.aws.amazon.com/cloudwatch/home?region={self._region}"
        self.url = f"{console}#dashboards/dashboard/{name}"

    def _requests(self, endpoint: Endpoint) -> list[dict[str, Any]]:
        where = ["EndpointName", endpoint.name, "VariantName", VARIANT]
        if endpoint.mode is EndpointMode.COMPONENTS:
            where = ["InferenceComponentName", endpoint.name]
        graphs = [
            self._graph("Requests in five minutes", [[_SAGEMAKER, "Invocations", *where]], "Sum"),
            self._graph(
                "Failed requests in five minutes",
                [[_SAGEMAKER, name, *where] for name in ("Invocation4XXErrors", "Invocation5XXErrors")],
                "Sum",
            ),
            self._graph("Time of an answer, µs, nine in ten", [[_SAGEMAKER, "ModelLatency", *where]], "p90"),
        ]
        if endpoint.mode is EndpointMode.ASYNCHRONOUS:
            backlog = [_SAGEMAKER, "ApproximateBacklogSize", "EndpointName", endpoint.name]
            graphs.append(self._graph("Requests that wait", [backlog], "Maximum"))
        return graphs

    def _capacity(self, plan: Plan, limits: Limits) -> list[dict[str, Any]]:
        mine = ["Cluster", plan.cluster_name]
        graphs = [self._graph("Instances", [[NAMESPACE, GUARD_METRICS[0], *mine]], "Maximum")]
        if limits.usd_per_node_hour is not None:
            graph = self._graph("Estimated spend, $", [[NAMESPACE, SPEND_METRIC, *mine]], "Maximum")
            if limits.max_usd is not None:
                line = {"label": "budget", "value": float(limits.max_usd)}
                graph["properties"]["annotations"] = {"horizontal": [line]}
            graphs.append(graph)
        return graphs

    def _words(self, plan: Plan, endpoint: Endpoint) -> dict[str, Any]:
        kind = "InferenceComponents" if endpoint.mode is EndpointMode.COMPONENTS else "Endpoints"
        lines = (
            f"### {plan.cluster_name}",
            f"Logs of the containers: the log group `/aws/sagemaker/{kind}/{endpoint.name}`",
            f"Its state: `aws sagemaker describe-endpoint --region {self._region} --endpoint-name {endpoint.name}`",
        )
        return {"type": "text", "properties": {"markdown": "\n\n".join(lines)}}

    def _graph(self, title: str, metrics: list[list[str]], stat: str) -> dict[str, Any]:
        properties: dict[str, Any] = {
            "title": title,
            "region": self._region,
            "metrics": metrics,
            "stat": stat,
            "period": 300,
            "view": "timeSeries",
            "yAxis": {"left": {"min": 0}},
        }
        return {"type": "metric", "properties": properties}


def _position(index: int) -> dict[str, int]:
    """A widget's place: two in a row."""
    return {"x": index % 2 * _WIDTH, "y": index // 2 * _HEIGHT, "width": _WIDTH, "height": _HEIGHT}
