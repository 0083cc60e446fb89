"""The single plan of a serving request that pins type, region and purchase option; `cdk synth` builds this plan."""

from dataclasses import replace

from launcher.catalog.bedrock import BedrockCatalog
from launcher.catalog.load import Catalog
from launcher.model.document import plan_at
from launcher.model.enums import Level, ServingTask
from launcher.model.errors import ImpossibleError
from launcher.model.finding import Finding, error
from launcher.model.fleet import fleet, hosting_of
from launcher.model.plan import Place, Plan
from launcher.model.request import PlanRequest
from launcher.model.serving import Layout, ServingEstimate, ServingFacts
from launcher.model.workload import ServingWorkload
from launcher.planning.endpoint import ServingPlan
from launcher.planning.endpoint_checks import layout_findings
from launcher.planning.pins import Pins, pins_of
from launcher.planning.serving.checks import check
from launcher.planning.serving.layout import layouts
from launcher.planning.serving.model import model_of
from launcher.planning.serving.reach import beyond, unserved_precision
from launcher.planning.serving.resolve import kinds_of, with_precision


def pinned_serving(request: PlanRequest, catalog: Catalog, bedrock: BedrockCatalog, facts: ServingFacts) -> Plan:
    """The plan of a serving request; if the request leaves the layout open, with the layout that costs least to run.

    The number of instances is the request's own, its maximum or its minimum: only a quote derives it from the traffic.

    Args:
        request: a plan file as read, with a serving workload.
        catalog: the catalog.
        bedrock: Bedrock's models, for the checks.
        facts: the inputs that compare layouts.

    Raises:
        ImpossibleError: a choice is not pinned, nothing fits, or the request has errors; with all findings.
    """
    serve = request.workload.serve
    if serve is None:
        findings = [
            error("nothing-to-serve", "workload.serve", f"{request.name} serves nothing", "give workload.serve")
        ]
        raise ImpossibleError(f"{request.name} is not one plan yet", findings=findings)
    request, serve = with_precision(request, serve, catalog, facts)
    findings = [finding for finding in check(request, serve, catalog, bedrock) if finding.level is Level.ERROR]
    pins = pins_of(request, ("inf2.48xlarge", "us-east-1", "on-demand"))
    findings += [] if isinstance(pins, Pins) else pins
    estimates = (
        None if findings or not isinstance(pins, Pins) else _estimates(pins.instance_type, serve, catalog, facts)
    )
    if isinstance(estimates, Finding):
        findings.append(estimates)
    if findings or not isinstance(pins, Pins) or not isinstance(estimates, tuple):
        raise ImpossibleError(f"{request.name} is not one plan yet", findings=findings)
    nodes = request.target.nodes
    count = nodes.minimum if nodes is not None else serve.max_instances or max(1, serve.min_instances)
    place = pins.place(request, kinds_of(request)[0], count)
    plans = [(_with(estimate.layout, request, serve, place), estimate) for estimate in estimates]
    return min(plans, key=lambda pair: _order(pair[0], pair[1], catalog))[0]


def _with(layout: Layout, request: PlanRequest, serve: ServingWorkload, place: Place) -> Plan:
    decided = replace(
        serve, tensor_parallel=layout.tensor_parallel, batch_size=layout.batch, sequence_length=layout.sequence
    )
    return plan_at(replace(request, workload=replace(request.workload, serve=decided)), place)


def _order(plan: Plan, estimate: ServingEstimate, catalog: Catalog) -> tuple[bool, float]:
    """The sort key of layouts: deployable first, then fewest instance-hours, deployments included, then the fastest.

    The quote makes the same choice if every instance-hour costs the same.
    """
    served = ServingPlan(plan=plan, catalog=catalog)
    refused = served.is_managed and any(finding.level is Level.ERROR for finding in layout_findings(served))
    copies = estimate.layout.copies
    hosting = hosting_of(served.serve, endpoint=served.is_managed, neuron=served.neuron, copies=copies)
    load = fleet(served.serve, estimate.requests_per_s, hosting)
    return refused, load.hours + load.deployment_hours


def _estimates(
    name: str, serve: ServingWorkload, catalog: Catalog, facts: ServingFacts
) -> tuple[ServingEstimate, ...] | Finding:
    kind = catalog.instance_types[name]
    model = model_of(serve, catalog)
    if model is None or kind.accelerator is None:
        return error("nothing-fits", "target.instance_type", f"{serve.model} is served on no {name}")
    chip = catalog.accelerators[kind.accelerator]
    reason = beyond(model, chip, embedding=serve.task is ServingTask.EMBEDDING)
    reason = reason or unserved_precision(serve.weight_format, chip)
    choice = layouts(serve, model, kind, chip, facts) if reason is None else None
    if choice is not None and choice.estimates:
        return choice.estimates
    reason = reason or (choice.reason if choice is not None else "")
    return error(
        "nothing-fits", "target.instance_type", f"{name}: {reason}", "another instance type, or a smaller shape"
    )
