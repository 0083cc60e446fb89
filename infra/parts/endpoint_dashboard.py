"""An endpoint's dashboard: requests, errors, response times, instances, cost."""

from typing import Any

from constructs import Construct

from infra.parts.limits import Limits
from infra.parts.widgets import add_dashboard, graph, spend, text
from launcher.model.endpoint import Endpoint, EndpointMode
from launcher.model.monitoring import GUARD_METRICS, NAMESPACE
from launcher.model.plan import Plan

_SAGEMAKER = "AWS/SageMaker"


def endpoint_dashboard(scope: Construct, id_: str, *, plan: Plan, endpoint: Endpoint, limits: Limits) -> str:
    """Add the dashboard of an endpoint; return its URL."""
    region = plan.place.region
    instances = [NAMESPACE, GUARD_METRICS[0], "Cluster", plan.cluster_name]
    widgets = [
        *_requests(region, endpoint),
        graph("Instances", region, [instances], stat="Maximum"),
        *spend(plan, limits),
        _details(plan, endpoint),
    ]
    return add_dashboard(scope, id_, name=endpoint.name, region=region, widgets=widgets)


def _requests(region: str, endpoint: Endpoint) -> list[dict[str, Any]]:
    where = ["EndpointName", endpoint.name, "VariantName", endpoint.variant]
    if endpoint.mode is EndpointMode.COMPONENTS:
        where = ["InferenceComponentName", endpoint.name]
    failed = [[_SAGEMAKER, name, *where] for name in ("Invocation4XXErrors", "Invocation5XXErrors")]
    latency = [_SAGEMAKER, "ModelLatency", *where]
    graphs = [
        graph("Requests in five minutes", region, [[_SAGEMAKER, "Invocations", *where]], stat="Sum"),
        graph("Failed requests in five minutes", region, failed, stat="Sum"),
        graph("Time of an answer, µs, nine in ten", region, [latency], stat="p90"),
    ]
    if endpoint.mode is EndpointMode.ASYNCHRONOUS:
        backlog = [_SAGEMAKER, "ApproximateBacklogSize", "EndpointName", endpoint.name]
        graphs.append(graph("Requests that wait", region, [backlog], stat="Maximum"))
    return graphs


def _details(plan: Plan, endpoint: Endpoint) -> dict[str, Any]:
    kind = "InferenceComponents" if endpoint.mode is EndpointMode.COMPONENTS else "Endpoints"
    region = plan.place.region
    lines = (
        f"Logs of the containers: the log group `/aws/sagemaker/{kind}/{endpoint.name}`",
        f"Its state: `aws sagemaker describe-endpoint --region {region} --endpoint-name {endpoint.name}`",
    )
    return text(plan, lines)
